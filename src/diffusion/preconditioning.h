// EDM preconditioning, noise levels and loss weight. Source: Karras et al. 2022 (arXiv 2206.00364), Table 1 and Eqs.
// 5, 7.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

namespace cirrus::diffusion {

inline constexpr double kSigmaData = 0.5;  ///< rms of the residual after it is normalised

/// c_skip, c_out, c_noise of sigma ([N]) as [N, 1, 1, 1] (c_noise: [N]). c_in is applied by band (see EdmNetwork).
struct Preconditioning {
  at::Tensor skip, out, noise;
};
inline Preconditioning precondition(const at::Tensor& sigma) {
  const at::Tensor s = sigma.view({-1, 1, 1, 1}), total = s * s + kSigmaData * kSigmaData;
  return {kSigmaData * kSigmaData / total, s * kSigmaData * total.rsqrt(), sigma.log() / 4};
}

/// Noise levels of a sampler: n values from sigma_max to sigma_min spaced evenly in sigma^(1/rho), then 0 (Eq. 5).
inline std::vector<double> noise_levels(int steps, double sigma_min, double sigma_max, double rho = 7) {
  std::vector<double> s;
  for (int i = 0; i < steps; ++i) {
    const double t = steps > 1 ? static_cast<double>(i) / (steps - 1) : 0.0;
    s.push_back(std::pow(
        std::pow(sigma_max, 1 / rho) + t * (std::pow(sigma_min, 1 / rho) - std::pow(sigma_max, 1 / rho)), rho));
  }
  s.push_back(0);
  return s;
}

}  // namespace cirrus::diffusion
