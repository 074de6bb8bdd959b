// The noise levels of the published SR3 workload: a linear schedule of 2000 steps. Source: Ho et al. 2020 (arXiv
// 2006.11239), Eq. 4, with the published study's end points; noise levels drawn as in Chen et al. 2020 (WaveGrad, arXiv
// 2009.00713), Section 2.
#pragma once

#include <cmath>
#include <vector>

namespace cirrus::diffusion {

inline constexpr int kSr3Steps = 2000;

/// beta_1 .. beta_T and the products abar_0 = 1 .. abar_T of 1 - beta.
struct Sr3Schedule {
  std::vector<double> beta, alpha_bar;
  Sr3Schedule() : beta{0}, alpha_bar{1} {
    for (int t = 1; t <= kSr3Steps; ++t) {
      beta.push_back(1e-6 + (1e-2 - 1e-6) * (t - 1) / (kSr3Steps - 1));
      alpha_bar.push_back(alpha_bar.back() * (1 - beta.back()));
    }
  }
  /// g of step t: the state is g x0 + sqrt(1 - g^2) noise.
  double g(int t) const { return std::sqrt(alpha_bar[static_cast<std::size_t>(t)]); }
};

/// sigma of the same state divided by g, as the other samplers and Denoiser have it.
inline double sigma_of(double g) { return std::sqrt((1 - g) * (1 + g)) / g; }

}  // namespace cirrus::diffusion
