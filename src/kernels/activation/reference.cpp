// The pointwise network operators as compositions of ATen operators: slow, obvious, differentiable on any device.
#include "kernels/activation.h"

namespace cirrus::kernels {

std::pair<double, double> cat_weights(std::int64_t ca, std::int64_t cb) {
  const double c = std::sqrt(static_cast<double>(ca + cb) / 0.5) * 0.5;
  return {c / std::sqrt(static_cast<double>(ca)), c / std::sqrt(static_cast<double>(cb))};
}

std::pair<double, double> sum_weights(double t) {
  const double norm = 1.0 / std::sqrt((1 - t) * (1 - t) + t * t);
  return {(1 - t) * norm, t * norm};
}

namespace reference {

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

}  // namespace reference
}  // namespace cirrus::kernels
