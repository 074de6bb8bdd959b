// One question to be answered: a low-resolution map, its truth, and how the one came from the other. In block mode the
// map is the exact block mean of the truth; in beam mode a Gaussian difference kernel and white noise lie between.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cirrus::metrics {

struct Case {
  at::Tensor truth;             ///< [s h, s w]
  at::Tensor lr;                ///< [h, w]
  int64_t factor = 4;           ///< s
  double beam_lr = 0;           ///< FWHM of the low-resolution map's beam in truth pixels; 0: block mode
  double beam_hr = 0;           ///< FWHM of the truth's beam in truth pixels
  std::optional<double> noise;  ///< white noise of the low-resolution map, in its unit

  /// Sigma of the Gaussian between truth and map in truth pixels: sqrt(beam_lr^2 - beam_hr^2) / sqrt(8 ln 2), 0 in
  /// block mode.
  double kernel() const;
  bool block_mode() const { return kernel() == 0; }
};

/// The case with both maps as float64 on the CPU. Throws Error(bad_data) where truth is not `factor` times the map, or
/// a pixel of either is not finite.
Case checked(Case question);

/// Names of the classical methods: bicubic, lanczos, spline, wiener.
std::span<const std::string_view> baseline_names();

/// What a classical method answers, [s h, s w]. Throws Error(usage) for an unknown name.
at::Tensor baseline(std::string_view name, const Case& question);

}  // namespace cirrus::metrics
