// The degradation operator D of a telescope: D = bin_s K, with K the Gaussian difference kernel between two beams and
// bin_s the mean (or sum) over blocks of s x s pixels; its adjoint; and D of maps with missing pixels. Noise is in
// sky/noise.h.
#pragma once

#include <ATen/ATen.h>

#include "sky/banded_matrix.h"

namespace cirrus::sky {

/// What a low-resolution pixel holds of the high-resolution ones below it.
enum class Binning {
  mean,  ///< brightness units (MJy/sr, K, mag): conserved as a mean
  sum,   ///< units per pixel (Jy/pixel, counts): conserved as a sum
};

/// A linear operator [..., height, width] -> [..., height/factor, width/factor] on CPU tensors of float32 or float64.
/// Boundary: half-sample reflection (scipy mode "reflect"), kernel cut at 6 sigma: what
/// scipy.ndimage.gaussian_filter(truncate=6) and a block mean give. Kernel, reflection and binning are one banded
/// matrix per axis, so apply costs about (s + 12 sigma)/s multiply-adds a pixel.
class Degradation {
public:
  /// sigma: of the difference kernel, in high-resolution pixels; 0 is none. Throws Error 65 if a size is not a positive
  /// multiple of the factor (the caller crops) or sigma is negative or not finite.
  Degradation(std::int64_t height, std::int64_t width, double sigma, std::int64_t factor,
              Binning binning = Binning::mean);

  /// D hr. A value that is not finite spreads over the reach of the kernel: use apply_masked for maps with gaps.
  at::Tensor apply(const at::Tensor& hr) const;

  /// D^T lr: [..., height/factor, width/factor] -> [..., height, width], the exact transpose of apply.
  at::Tensor adjoint(const at::Tensor& lr) const;

  /// D(valid hr) / D(valid) (times factor^2 for Binning::sum): the weighted mean over what is there. valid: bool or
  /// weights in [0, 1], broadcastable to hr; pixels with valid 0 may hold NaN. NaN where less than `least` of the
  /// weight is valid.
  at::Tensor apply_masked(const at::Tensor& hr, const at::Tensor& valid, double least = 0.5) const;

  std::int64_t height() const { return rows_.cols(); }
  std::int64_t width() const { return columns_.cols(); }
  std::int64_t factor() const { return factor_; }
  double sigma() const { return sigma_; }

private:
  std::int64_t factor_;
  double sigma_;
  Binning binning_;
  BandedMatrix rows_, columns_, rows_transposed_, columns_transposed_;
};

}  // namespace cirrus::sky
