// Pointwise operators of the magnitude-preserving U-Net, each fused into one pass over channels-last activations, with
// their gradients. Source: Karras et al. 2024 (arXiv 2312.02696), Eqs. 30 (pixel norm), 81 (silu), 88 (sum), 103
// (concatenation); hardswish (Howard et al. 2019) in place of SiLU, which costs several times more on a CPU.
// reference:: holds the same operators composed of plain ATen ones: the oracle of the tests, and the path of other
// devices.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

namespace cirrus::kernels {

/// Root mean square of hardswish(x) for x ~ N(0, 1): dividing by it keeps unit magnitude.
inline constexpr double kHardswishRms = 0.5758188735513412;
/// Added (squared) to the mean square of a pixel's channels before it is normalised.
inline constexpr double kPixelNormEpsilon = 1e-4;

/// hardswish(x) / kHardswishRms. x: [N, C, H, W].
at::Tensor act(const at::Tensor& x);
/// act(x * scale[n, c]). x: [N, C, H, W], scale: [N, C] (float32).
at::Tensor scale_act(const at::Tensor& x, const at::Tensor& scale);
/// (x / rms over channels, act of it). x: [N, C, H, W].
std::pair<at::Tensor, at::Tensor> pixel_norm_act(const at::Tensor& x);
/// ((1 - t) a + t b) / sqrt((1 - t)^2 + t^2). a, b: [N, C, H, W].
at::Tensor mp_sum(const at::Tensor& a, const at::Tensor& b, double t);

/// Weights wa, wb of a concatenation of ca and cb channels with which both contribute equal magnitude (Eq. 103 with t =
/// 1/2).
inline std::pair<double, double> cat_weights(std::int64_t ca, std::int64_t cb) {
  const double c = std::sqrt(static_cast<double>(ca + cb) / 0.5) * 0.5;
  return {c / std::sqrt(static_cast<double>(ca)), c / std::sqrt(static_cast<double>(cb))};
}
/// Weights of a and b in mp_sum.
inline std::pair<double, double> sum_weights(double t) {
  const double norm = 1.0 / std::sqrt((1 - t) * (1 - t) + t * t);
  return {(1 - t) * norm, t * norm};
}

namespace reference {
at::Tensor act(const at::Tensor& x);
at::Tensor scale_act(const at::Tensor& x, const at::Tensor& scale);
std::pair<at::Tensor, at::Tensor> pixel_norm_act(const at::Tensor& x);
at::Tensor mp_sum(const at::Tensor& a, const at::Tensor& b, double t);
}  // namespace reference

}  // namespace cirrus::kernels
