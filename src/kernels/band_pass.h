// Band-pass cascade: a field split by successive Gaussian blurs into bands that sum to it.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <vector>

namespace cirrus::kernels {

/// Standard deviations (pixels) of the cascade's blurs G1, G2, G3. Bands: x - G1 x, G1 x - G2 x, G2 x - G3 x, G3 x.
inline constexpr std::array<double, 3> kBandSigmas{0.85, 1.7, 3.4};
inline constexpr int kBands = 4;

/// One-dimensional normalised Gaussian weights of a blur, radius ceil(3.5 sigma).
inline std::vector<float> gaussian_weights(double sigma) {
  const int radius = static_cast<int>(std::ceil(3.5 * sigma));
  std::vector<double> w;
  double sum = 0;
  for (int i = -radius; i <= radius; ++i) sum += w.emplace_back(std::exp(-0.5 * i * i / (sigma * sigma)));
  std::vector<float> out;
  for (double v : w) out.push_back(static_cast<float>(v / sum));
  return out;
}

/// Reach of the cascade in pixels: bands at a pixel depend on nothing farther away.
inline int band_reach() { return static_cast<int>(gaussian_weights(kBandSigmas.back()).size() / 2); }

/// x: float32 [N, 1, H, W] -> [N, 4, H, W]; outside the window x counts as 0. No gradient flows to x.
at::Tensor band_pass(const at::Tensor& x);

/// Standard deviation of each band of white unit noise (far from borders).
std::array<double, kBands> band_noise_gains();

namespace reference {
at::Tensor band_pass(const at::Tensor& x);
}

}  // namespace cirrus::kernels
