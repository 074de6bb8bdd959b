// The base map U: a Wiener upsample of the low-resolution map that knows beam, pixel and noise, under a generic prior
// power spectrum A k^-2.9 (Miville-Deschenes et al. 2007) seen through the output's beam. A is fitted to the map. The
// filter is cut to compact support, so that U at a pixel depends on nearby pixels alone: tiles agree, and a hole does
// not spread.
#pragma once

#include <ATen/ATen.h>

namespace cirrus::enhance {

/// How the low-resolution map came about; lengths in output pixels.
struct Sampling {
  std::int64_t factor = 4;
  double beam_in = 0;     ///< FWHM of the low-resolution map's beam; 0: none (block mode)
  double beam_out = 2.3;  ///< FWHM of the output's beam

  /// Sigma of the Gaussian between the two beams; 0 in block mode. Throws Error(bad_data) if beam_in < beam_out.
  double difference_sigma() const;
};

/// Prior slope of the power spectrum.
inline constexpr double kPriorSlope = 2.9;
/// Reach of the filter in low-resolution pixels.
inline constexpr std::int64_t kWienerReach = 16;

/// Variance of the prior's amplitude A over that of the noise in a low-resolution pixel, fitted to the map's power
/// spectrum between 0.015 and 0.2 cycles per pixel. lr: [h, w] float64; noise: sigma in the map's unit, > 0.
double fit_prior_to_noise(const at::Tensor& lr, double noise, const Sampling& sampling);

/// The filter: float32 [factor^2, 1, 2 r + 1, 2 r + 1], r = kWienerReach: one kernel for each sub-pixel, row by row;
/// each sums to 1.
at::Tensor wiener_filter(double prior_to_noise, const Sampling& sampling);

/// U of a map ([h, w] float32, normalised so that its bulk is of order 1) by a filter: [s h, s w].
at::Tensor wiener_upsample(const at::Tensor& lr, const at::Tensor& filter, std::int64_t factor);

}  // namespace cirrus::enhance
