// Power spectra in rings of wave number: how much structure an output has at each scale (power ratio) and how much of
// it is the truth's (cross-correlation coefficient). Maps are apodised with a Hann window, so that they need not be
// periodic.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <optional>
#include <vector>

namespace cirrus::metrics {

inline constexpr int kRings = 39;             ///< rings between 0.0125 and 0.5 cycles per pixel
inline constexpr double kRingWidth = 0.0125;  ///< cycles per pixel

/// Sums over the Fourier modes of each ring of |X|^2, |Y|^2 and Re(X Y*): X the output, Y the truth.
struct RingSums {
  std::array<double, kRings> output{}, truth{}, cross{};
};

/// Where the ring lies, in cycles per pixel: the middle of its edges.
double ring_centre(int ring);

/// The ring sums of two maps [H, W]: mean removed under a 2-D Hann window, then that window, then |FFT|^2.
RingSums ring_sums(const at::Tensor& output, const at::Tensor& truth);

/// P_output / P_truth of each ring; NaN where the ring holds no mode (maps smaller than 80 pixels) or no power.
std::vector<double> power_ratio(const RingSums& sums);

/// Re(X Y*) / sqrt(P_output P_truth) of each ring, -1..1; NaN as in power_ratio().
std::vector<double> correlation(const RingSums& sums);

/// Median of the ratio over rings centred between the input's Nyquist frequency 0.5 / factor and 0.4 cycles per pixel:
/// the scales that an enhancement adds. Empty if no ring has power there.
std::optional<double> added_power(const std::vector<double>& ratio, int64_t factor);

/// Mean of the coefficient over rings centred between `low` and `high` times the input's Nyquist frequency 0.5 /
/// factor.
std::optional<double> mean_correlation(const std::vector<double>& coefficient, int64_t factor, double low, double high);

/// Wave number (cycles per pixel) of the first ring where the coefficient falls below 0.5, or 0.5 if it never does:
/// structure beyond it is statistical, not measured.
double half_correlation(const std::vector<double>& coefficient);

}  // namespace cirrus::metrics
