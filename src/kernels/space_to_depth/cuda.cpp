// The network's two ends on CUDA tensors: memory for results, and entries in torch's dispatcher.
#include <torch/library.h>

#include "device/cuda/tensors.h"
#include "kernels/space_to_depth/cuda_planes.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu; lines and width are those at half resolution.
void run_space_to_depth(Element type, Planes bands, const float* scales, Planes maps, void* out, std::int64_t samples,
                        std::int64_t lines, std::int64_t width, bool paired, CudaStream stream);
void run_depth_to_space(Element type, const void* head, const float* head_scale, Planes bands, const float* scales,
                        float* out, std::int64_t samples, std::int64_t lines, std::int64_t width, CudaStream stream);
void run_depth_to_space_backward(Element type, const void* head, const float* head_scale, Planes bands,
                                 const float* grad, void* dhead, float* dhead_scale, float* dscales, float* parts,
                                 std::int64_t count, std::int64_t samples, std::int64_t lines, std::int64_t width,
                                 CudaStream stream);

namespace {

at::Tensor with_lines(const at::Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }

Planes planes_of(const at::Tensor& x) {
  return {x.data_ptr<float>(), x.size(1), x.stride(0), x.stride(1), x.stride(2)};
}

/// Whether two neighbours can be read in one access, wherever they are.
bool paired(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 8 == 0 && x.stride(0) % 2 == 0 && x.stride(1) % 2 == 0 &&
         x.stride(2) % 2 == 0;
}
at::Tensor with_pairs(const at::Tensor& x) {
  const at::Tensor c = x.contiguous();
  return paired(c) ? c : c.clone();
}

/// Pixels of four channels that are read at once: a view may begin between two such.
at::Tensor head_of(const at::Tensor& x) {
  const at::Tensor c = channels_last(x);
  return aligned({c}) ? c : c.clone(at::MemoryFormat::ChannelsLast);
}

}  // namespace

at::Tensor space_to_depth_input(const at::Tensor& bands_in, const at::Tensor& scales, const at::Tensor& maps_in,
                                at::ScalarType dtype) {
  const Launching on(bands_in);
  const at::Tensor bands = with_lines(bands_in), maps = with_lines(maps_in), s = float_contiguous(scales);
  const std::int64_t n = bands.size(0), lines = bands.size(2) / 2, width = bands.size(3) / 2,
                     channels = 4 * (bands.size(1) + maps.size(1) + 1);
  const at::Tensor out =
      at::empty({n, channels, lines, width}, bands.options().dtype(dtype), at::MemoryFormat::ChannelsLast);
  run_space_to_depth(element_of(out), planes_of(bands), s.data_ptr<float>(), planes_of(maps), out.data_ptr(), n, lines,
                     width, paired(bands) && paired(maps), on);
  on.check();
  return out;
}

at::Tensor depth_to_space_output(const at::Tensor& head_in, const at::Tensor& head_scale, const at::Tensor& bands_in,
                                 const at::Tensor& band_scales) {
  const Launching on(head_in);
  const at::Tensor head = head_of(head_in), bands = with_pairs(bands_in), hs = float_contiguous(head_scale),
                   bs = float_contiguous(band_scales);
  const at::Tensor out = at::empty({bands.size(0), 1, bands.size(2), bands.size(3)}, bands.options());
  run_depth_to_space(element_of(head), head.data_ptr(), hs.data_ptr<float>(), planes_of(bands), bs.data_ptr<float>(),
                     out.data_ptr<float>(), bands.size(0), head.size(2), head.size(3), on);
  on.check();
  return out;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> depth_to_space_output_backward(const at::Tensor& head_in,
                                                                              const at::Tensor& head_scale,
                                                                              const at::Tensor& bands_in,
                                                                              const at::Tensor& band_scales,
                                                                              const at::Tensor& grad) {
  const Launching on(head_in);
  const at::Tensor head = head_of(head_in), bands = with_pairs(bands_in), hs = float_contiguous(head_scale),
                   g = with_pairs(grad.to(at::kFloat)), dhead = like_channels_last(head), dhs = at::empty_like(hs),
                   dbs = at::empty(band_scales.sizes(), hs.options());
  const std::int64_t n = head.size(0), lines = head.size(2), width = head.size(3),
                     count = reduction_parts(lines * width, n);
  const at::Tensor parts = at::empty({n, count, 1 + bands.size(1)}, hs.options());
  run_depth_to_space_backward(element_of(head), head.data_ptr(), hs.data_ptr<float>(), planes_of(bands),
                              g.data_ptr<float>(), dhead.data_ptr(), dhs.data_ptr<float>(), dbs.data_ptr<float>(),
                              parts.data_ptr<float>(), count, n, lines, width, on);
  on.check();
  return {dhead, dhs, dbs};
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) {
  m.impl("space_to_depth_input", space_to_depth_input);
  m.impl("depth_to_space_output", depth_to_space_output);
  m.impl("depth_to_space_output_backward", depth_to_space_output_backward);
}

}  // namespace cirrus::kernels::cuda
