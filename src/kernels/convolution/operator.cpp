// The 3 x 3 convolution: checks, gradients, and its entry in torch's dispatcher.
#include "kernels/convolution.h"

#include <torch/library.h>

#include "kernels/autograd.h"
#include "kernels/dispatch.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace cpu {
at::Tensor winograd(const at::Tensor& x, const at::Tensor& weight, bool transposed);
}

namespace {

// transposed: the gradient of the convolution's input from that of its output.
TORCH_LIBRARY_FRAGMENT(cirrus, m) { m.def("winograd(Tensor x, Tensor weight, bool transposed) -> Tensor"); }
TORCH_LIBRARY_IMPL(cirrus, CPU, m) { m.impl("winograd", cpu::winograd); }

const auto& winograd_kernel() {
  static const FusedOperator<decltype(cpu::winograd)> kernel("cirrus::winograd");
  return kernel;
}

struct Convolution : Function<Convolution> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& weight) {
    const at::Tensor x = channels_last(input), w = channels_last(weight);
    ctx->save_for_backward({x, w});
    return winograd_kernel()(x, w, false);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &w = saved[1], g = channels_last(grads[0]);
    at::Tensor dx, dw;
    if (ctx->needs_input_grad(0)) dx = winograd_kernel()(g, w, true);
    if (ctx->needs_input_grad(1))
      dw = std::get<1>(at::convolution_backward(g, x, w, at::OptionalIntArrayRef(), {1, 1}, {1, 1}, {1, 1}, false,
                                                {0, 0}, 1, {false, true, false}));
    return {dx, dw};
  }
};

}  // namespace

at::Tensor convolve_3x3(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  TORCH_CHECK(x.dim() == 4 && weight.dim() == 4 && weight.size(1) == x.size(1) && weight.size(2) == 3 &&
                  weight.size(3) == 3 && x.scalar_type() == weight.scalar_type(),
              "convolve_3x3: ", x.toString(), x.sizes(), " with ", weight.toString(), weight.sizes());
  const bool fused = x.scalar_type() == at::kFloat && weight.size(0) % 16 == 0 && weight.size(1) % 16 == 0 &&
                     x.numel() > 0 && weight.numel() > 0 && winograd_kernel().on_device_of(x);
  if (!fused) return reference::convolve_3x3(x, weight, bias);
  const at::Tensor y = Convolution::apply(x, weight);
  return bias ? y + bias->view({1, -1, 1, 1}) : y;
}

}  // namespace cirrus::kernels
