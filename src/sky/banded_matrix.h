// A banded matrix [rows, cols] held as a first column and `width` weights for each row, and its products with images
// along either axis. One axis of a separable operator (beam, reflection and pixel binning in one) is such a matrix, its
// adjoint the transpose.
#pragma once

#include <cstdint>
#include <vector>

namespace cirrus::sky {

class BandedMatrix {
public:
  /// rows x cols matrix; row r holds `dense_rows[r]` from column first[r] on. Rows are padded to one common width.
  BandedMatrix(std::int64_t cols, std::vector<std::int64_t> first, const std::vector<std::vector<double>>& rows);

  /// Gaussian of `sigma` samples (0: none; cut at 6 sigma, normalised as scipy.ndimage.gaussian_filter1d), half-sample
  /// reflection at both ends, then the sum of each `factor` neighbours times `scale`. cols = n, rows = n / factor.
  static BandedMatrix blur_and_bin(std::int64_t n, double sigma, std::int64_t factor, double scale);

  BandedMatrix transposed() const;

  std::int64_t rows() const { return static_cast<std::int64_t>(first_.size()); }
  std::int64_t cols() const { return cols_; }

  /// Output row `row` of M * image: image [cols, n] and out [n] contiguous; double and float agree to rounding.
  void row_of_product(std::int64_t row, const float* image, std::int64_t n, float* out) const;
  void row_of_product(std::int64_t row, const double* image, std::int64_t n, double* out) const;

  /// out [rows] = M * line [cols].
  void times_line(const float* line, float* out) const;
  void times_line(const double* line, double* out) const;

private:
  std::int64_t cols_;
  std::int64_t width_ = 0;
  std::vector<std::int64_t> first_;
  std::vector<double> weights_;        // [rows, width]
  std::vector<float> weights_single_;  // the same, rounded
};

}  // namespace cirrus::sky
