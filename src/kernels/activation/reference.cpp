// The pointwise network operators as compositions of ATen operators: slow, obvious, differentiable on any device.
#include "kernels/activation.h"

namespace cirrus::kernels::reference {

at::Tensor act(const at::Tensor& x) { return at::hardswish(x) / kHardswishRms; }

at::Tensor scale_act(const at::Tensor& x, const at::Tensor& scale) {
  return act(x * scale.to(x.scalar_type()).unsqueeze(-1).unsqueeze(-1));
}

std::pair<at::Tensor, at::Tensor> pixel_norm_act(const at::Tensor& x) {
  const at::Tensor xn = x * (x.square().mean(1, true) + kPixelNormEpsilon * kPixelNormEpsilon).rsqrt();
  return {xn, act(xn)};
}

at::Tensor mp_sum(const at::Tensor& a, const at::Tensor& b, double t) {
  const auto [wa, wb] = sum_weights(t);
  return a * wa + b * wb;
}

}  // namespace cirrus::kernels::reference
