// The network's two ends as ATen operators.
#include "kernels/space_to_depth.h"

namespace cirrus::kernels::reference {

at::Tensor space_to_depth_input(const at::Tensor& bands, const at::Tensor& scales, const at::Tensor& maps,
                                at::ScalarType dtype) {
  const at::Tensor scaled = bands * scales.unsqueeze(-1).unsqueeze(-1);
  const at::Tensor ones = at::ones_like(bands.narrow(1, 0, 1));
  return at::pixel_unshuffle(at::cat({scaled, maps, ones}, 1), 2).to(dtype).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor depth_to_space_output(const at::Tensor& head, const at::Tensor& head_scale, const at::Tensor& bands,
                                 const at::Tensor& band_scales) {
  return at::pixel_shuffle(head.to(bands.scalar_type()), 2) * head_scale.view({-1, 1, 1, 1}) +
         (bands * band_scales.unsqueeze(-1).unsqueeze(-1)).sum(1, true);
}

}  // namespace cirrus::kernels::reference
