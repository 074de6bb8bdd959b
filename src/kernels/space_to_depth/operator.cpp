// The network's two ends: checks, gradients, and their entries in torch's dispatcher.
#include <torch/library.h>

#include "kernels/autograd.h"
#include "kernels/dispatch.h"
#include "kernels/rows.h"
#include "kernels/space_to_depth.h"

namespace cirrus::kernels {
namespace cpu {
at::Tensor space_to_depth_input(const at::Tensor& bands, const at::Tensor& scales, const at::Tensor& maps,
                                at::ScalarType dtype);
at::Tensor depth_to_space_output(const at::Tensor& head, const at::Tensor& head_scale, const at::Tensor& bands,
                                 const at::Tensor& band_scales);
std::tuple<at::Tensor, at::Tensor, at::Tensor> depth_to_space_output_backward(const at::Tensor& head,
                                                                              const at::Tensor& head_scale,
                                                                              const at::Tensor& bands,
                                                                              const at::Tensor& band_scales,
                                                                              const at::Tensor& grad);
}  // namespace cpu

namespace {

TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def("space_to_depth_input(Tensor bands, Tensor scales, Tensor maps, ScalarType dtype) -> Tensor");
  m.def("depth_to_space_output(Tensor head, Tensor head_scale, Tensor bands, Tensor band_scales) -> Tensor");
  m.def(
      "depth_to_space_output_backward(Tensor head, Tensor head_scale, Tensor bands, Tensor band_scales, Tensor grad)"
      " -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cirrus, CPU, m) {
  m.impl("space_to_depth_input", cpu::space_to_depth_input);
  m.impl("depth_to_space_output", cpu::depth_to_space_output);
  m.impl("depth_to_space_output_backward", cpu::depth_to_space_output_backward);
}

const auto& space_to_depth_input_kernel() {
  static const FusedOperator<decltype(cpu::space_to_depth_input)> kernel("cirrus::space_to_depth_input");
  return kernel;
}
const auto& depth_to_space_output_kernel() {
  static const FusedOperator<decltype(cpu::depth_to_space_output)> kernel("cirrus::depth_to_space_output");
  return kernel;
}

struct DepthToSpaceOutput : Function<DepthToSpaceOutput> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& head_in, const at::Tensor& head_scale,
                            const at::Tensor& bands_in, const at::Tensor& band_scales) {
    const at::Tensor head = channels_last(head_in), bands = bands_in.contiguous(),
                     hs = head_scale.to(at::kFloat).contiguous(), bs = band_scales.to(at::kFloat).contiguous();
    ctx->save_for_backward({head, hs, bands, bs});
    return depth_to_space_output_kernel()(head, hs, bands, bs);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::depth_to_space_output_backward)> kernel(
        "cirrus::depth_to_space_output_backward");
    const variable_list saved = ctx->get_saved_variables();
    const auto [dhead, dhs, dbs] = kernel(saved[0], saved[1], saved[2], saved[3], grads[0].contiguous());
    return {dhead, dhs, at::Tensor(), dbs};
  }
};

}  // namespace

at::Tensor space_to_depth_input(const at::Tensor& bands, const at::Tensor& scales, const at::Tensor& maps,
                                at::ScalarType dtype) {
  TORCH_CHECK(bands.dim() == 4 && maps.dim() == 4 && bands.size(0) == maps.size(0) && bands.size(2) == maps.size(2) &&
                  bands.size(3) == maps.size(3) && bands.size(2) % 2 == 0 && bands.size(3) % 2 == 0 &&
                  scales.dim() == 2 && scales.size(0) == bands.size(0) && scales.size(1) == bands.size(1),
              "space_to_depth_input: bands ", bands.sizes(), ", scales ", scales.sizes(), ", maps ", maps.sizes());
  const bool fused = bands.scalar_type() == at::kFloat && maps.scalar_type() == at::kFloat &&
                     is_kernel_dtype(dtype, bands.device()) && space_to_depth_input_kernel().on_device_of(bands);
  return fused ? space_to_depth_input_kernel()(bands, scales.to(at::kFloat).contiguous(), maps, dtype)
               : reference::space_to_depth_input(bands, scales, maps, dtype);
}

at::Tensor depth_to_space_output(const at::Tensor& head, const at::Tensor& head_scale, const at::Tensor& bands,
                                 const at::Tensor& band_scales) {
  TORCH_CHECK(head.dim() == 4 && bands.dim() == 4 && head.size(1) == 4 && head.size(0) == bands.size(0) &&
                  2 * head.size(2) == bands.size(2) && 2 * head.size(3) == bands.size(3) &&
                  head_scale.numel() == bands.size(0) && band_scales.dim() == 2 &&
                  band_scales.size(0) == bands.size(0) && band_scales.size(1) == bands.size(1),
              "depth_to_space_output: head ", head.sizes(), ", its scale ", head_scale.sizes(), ", bands ",
              bands.sizes(), ", their scales ", band_scales.sizes());
  return depth_to_space_output_kernel().takes(head) && bands.scalar_type() == at::kFloat
             ? DepthToSpaceOutput::apply(head, head_scale, bands, band_scales)
             : reference::depth_to_space_output(head, head_scale, bands, band_scales);
}

}  // namespace cirrus::kernels
