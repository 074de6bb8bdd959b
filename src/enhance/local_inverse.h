// An approximate inverse of what beam mode's consistency has to invert, K diag(v) K^T + diag(n), K a separable Gaussian
// beam with binning. Where a map is much brighter than its noise this matrix undoes the beam almost exactly, and its
// condition number passes 10^8: conjugate gradients need a preconditioner that knows it. The matrix is local, so
// overlapping windows are inverted one by one (Cholesky) and blended: an additive Schwarz method with a partition of
// unity.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace cirrus::enhance {

class LocalInverse {
public:
  /// For data of height x width pixels with factor^2 sky pixels each, and a beam of `sigma` sky pixels (> 0).
  LocalInverse(std::int64_t height, std::int64_t width, std::int64_t factor, double sigma);

  /// variance v: [factor height, factor width], noise n: [height, width], both float64, finite and positive.
  void factorize(const at::Tensor& variance, const at::Tensor& noise);

  /// About (K diag(v) K^T + diag(n))^-1 r: symmetric and positive definite. r: [height, width] float64.
  at::Tensor apply(const at::Tensor& r) const;

  /// Memory of the factors for each data pixel.
  static double bytes_per_pixel(std::int64_t factor, double sigma);

private:
  /// One axis: windows of `size` data pixels from `start` on, and what each counts for at its pixels.
  struct Axis {
    std::int64_t size = 0;
    std::vector<std::int64_t> start;
    at::Tensor share;  ///< [windows, size], sums to 1 over the windows at each pixel
  };
  static Axis make_axis(std::int64_t pixels, std::int64_t overlap);

  std::int64_t height_, width_, factor_, reach_;
  Axis rows_, columns_;
  at::Tensor row_pairs_, column_pairs_;  ///< products of two rows of K: [size^2, sky pixels of a window]
  at::Tensor index_;                     ///< [windows, pixels]: place in the flattened data
  at::Tensor blend_;                     ///< [windows, pixels]: square root of the share
  at::Tensor scale_;                     ///< [windows, pixels]: 1 / square root of the diagonal
  at::Tensor factors_;                   ///< [windows, pixels, pixels] float32: Cholesky factors of the scaled matrices
};

}  // namespace cirrus::enhance
