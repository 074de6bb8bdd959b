// Structural similarity (Wang et al. 2004) and peak signal-to-noise ratio. Both need a data range; for dust, whose
// brightest pixel says nothing about the rest, it is the 0.5 to 99.5 percentile range of the truth.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace cirrus::metrics {

/// 99.5 minus 0.5 percentile of the truth.
double data_range(const at::Tensor& truth);

/// Mean SSIM over pixels whose window lies inside the map: Gaussian window of sigma 1.5 on 11 x 11 pixels, population
/// moments, K1 = 0.01, K2 = 0.03. Maps [H, W]; empty if smaller than the window.
std::optional<double> ssim(const at::Tensor& output, const at::Tensor& truth);

/// 20 log10(range / RMSE) in dB with the range above; infinite for equal maps.
double psnr(const at::Tensor& output, const at::Tensor& truth);

}  // namespace cirrus::metrics
