// Classical up-samplings that every learned method must beat: bicubic, Lanczos-3, cubic B-spline, and a Wiener filter
// that knows beam, noise and the power spectrum of dust. All use half-pixel centres: output pixel i lies at (i + 0.5) /
// s - 0.5 of the input.
#pragma once

#include <ATen/ATen.h>

namespace cirrus::metrics {

/// Cubic convolution (Keys 1981) with a = -0.5, edge pixels replicated. torch and OpenCV use a = -0.75, which gives
/// another error. lr [h, w], factor s >= 1; returns [s h, s w] float64.
at::Tensor bicubic(const at::Tensor& lr, int64_t factor);

/// Lanczos-3, edge pixels replicated, weights normalised to sum 1, no prefilter. Shapes as in bicubic().
at::Tensor lanczos3(const at::Tensor& lr, int64_t factor);

/// Interpolating cubic B-spline (Unser 1999) with half-sample mirrored edges: the spline passes through the input's
/// samples. Shapes as in bicubic().
at::Tensor spline(const at::Tensor& lr, int64_t factor);

/// What the Wiener filter knows of the map. Lengths are in output pixels, noise in the map's unit.
struct WienerModel {
  double kernel = 0;   ///< sigma of the Gaussian that took the truth to the low-resolution beam; 0: pure block mean
  double beam_hr = 0;  ///< FWHM of the truth's Gaussian beam
  double noise = 0;    ///< white noise; at least 1e-4 of the map's standard deviation is assumed
  double slope = 2.9;  ///< prior power spectrum k^-slope (Miville-Deschenes et al. 2007, A&A 469, 595)
};

/// Wiener up-sampling: prior A k^-slope times the truth's beam, mirrored edges, the alias sum over all s^2 folded
/// modes, block mean and kernel in the transfer; A from the median of |LR_k|^2 over the model at 0.015 < k < 0.2 cycles
/// per input pixel. Shapes as in bicubic().
at::Tensor wiener(const at::Tensor& lr, int64_t factor, const WienerModel& model);

}  // namespace cirrus::metrics
