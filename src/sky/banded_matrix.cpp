// Building banded matrices and their products. Compiled without ATen and for several instruction sets: these loops are
// the cost of degrading a map.
#include "sky/banded_matrix.h"

#include <algorithm>
#include <cmath>

#include "sky/clones.h"

namespace cirrus::sky {
namespace {

template <typename T>
[[gnu::always_inline]] inline void combine_rows(const T* weights, std::int64_t width, const T* image, std::int64_t n,
                                                T* __restrict out) {
  std::fill(out, out + n, T(0));
  std::int64_t k = 0;
  for (; k + 4 <= width; k += 4) {  // four input rows at a time, so that `out` is not read and written for each
    const T *a = image + k * n, *b = a + n, *c = b + n, *d = c + n;
    const T wa = weights[k], wb = weights[k + 1], wc = weights[k + 2], wd = weights[k + 3];
    for (std::int64_t j = 0; j < n; ++j) out[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j]);
  }
  for (; k < width; ++k) {
    const T* a = image + k * n;
    const T w = weights[k];
    for (std::int64_t j = 0; j < n; ++j) out[j] += w * a[j];
  }
}

template <typename T>
[[gnu::always_inline]] inline void combine_columns(const T* weights, std::int64_t width, const std::int64_t* first,
                                                   std::int64_t rows, const T* line, T* __restrict out) {
  constexpr int kLanes = 8;  // independent partial sums: a fixed order of summation that still vectorises
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* w = weights + r * width;
    const T* x = line + first[r];
    T lanes[kLanes] = {};
    std::int64_t k = 0;
    for (; k + kLanes <= width; k += kLanes)
      for (int l = 0; l < kLanes; ++l) lanes[l] += w[k + l] * x[k + l];
    T sum = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
    for (; k < width; ++k) sum += w[k] * x[k];
    out[r] = sum;
  }
}

[[CIRRUS_CLONES]] void rows_float(const float* w, std::int64_t width, const float* image, std::int64_t n, float* out) {
  combine_rows(w, width, image, n, out);
}
[[CIRRUS_CLONES]] void rows_double(const double* w, std::int64_t width, const double* image, std::int64_t n,
                                   double* out) {
  combine_rows(w, width, image, n, out);
}
[[CIRRUS_CLONES]] void columns_float(const float* w, std::int64_t width, const std::int64_t* first, std::int64_t rows,
                                     const float* line, float* out) {
  combine_columns(w, width, first, rows, line, out);
}
[[CIRRUS_CLONES]] void columns_double(const double* w, std::int64_t width, const std::int64_t* first, std::int64_t rows,
                                      const double* line, double* out) {
  combine_columns(w, width, first, rows, line, out);
}

std::vector<double> gaussian_kernel(double sigma) {
  const auto radius = static_cast<std::int64_t>(6.0 * sigma + 0.5);
  std::vector<double> kernel(static_cast<std::size_t>(2 * radius + 1), 1.0);
  double sum = 0;
  for (std::int64_t i = -radius; i <= radius; ++i) {
    const double x = radius == 0 ? 0.0 : static_cast<double>(i) / sigma;
    sum += kernel[static_cast<std::size_t>(i + radius)] = std::exp(-0.5 * x * x);
  }
  for (double& k : kernel) k /= sum;
  return kernel;
}

/// Half-sample reflection (d c b a | a b c d | d c b a) of any index into [0, n).
std::int64_t reflect(std::int64_t i, std::int64_t n) {
  i %= 2 * n;
  if (i < 0) i += 2 * n;
  return i < n ? i : 2 * n - 1 - i;
}

}  // namespace

BandedMatrix::BandedMatrix(std::int64_t cols, std::vector<std::int64_t> first,
                           const std::vector<std::vector<double>>& rows)
    : cols_(cols), first_(std::move(first)) {
  for (const auto& row : rows) width_ = std::max(width_, static_cast<std::int64_t>(row.size()));
  weights_.assign(rows.size() * static_cast<std::size_t>(width_), 0.0);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::int64_t begin = std::min(first_[r], cols_ - width_);  // a padded row must not reach beyond the line
    std::copy(rows[r].begin(), rows[r].end(),
              weights_.begin() + static_cast<std::int64_t>(r) * width_ + (first_[r] - begin));
    first_[r] = begin;
  }
  weights_single_.assign(weights_.begin(), weights_.end());
}

BandedMatrix BandedMatrix::blur_and_bin(std::int64_t n, double sigma, std::int64_t factor, double scale) {
  const std::vector<double> kernel = gaussian_kernel(sigma);
  const auto radius = static_cast<std::int64_t>(kernel.size() / 2);
  const std::int64_t rows = n / factor;
  std::vector<std::int64_t> first(static_cast<std::size_t>(rows));
  std::vector<std::vector<double>> weights(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    // Reflected samples fall into the same window: one that starts outside the line is cut at its end.
    const std::int64_t low = std::max<std::int64_t>(0, r * factor - radius),
                       high = std::min(n, (r + 1) * factor + radius);
    std::vector<double> row(static_cast<std::size_t>(high - low), 0.0);
    for (std::int64_t p = r * factor; p < (r + 1) * factor; ++p)
      for (std::int64_t k = -radius; k <= radius; ++k)
        row[static_cast<std::size_t>(reflect(p + k, n) - low)] += scale * kernel[static_cast<std::size_t>(k + radius)];
    first[static_cast<std::size_t>(r)] = low;
    weights[static_cast<std::size_t>(r)] = std::move(row);
  }
  return BandedMatrix(n, std::move(first), weights);
}

BandedMatrix BandedMatrix::transposed() const {
  std::vector<std::int64_t> first(static_cast<std::size_t>(cols_), 0);
  std::vector<std::vector<double>> weights(static_cast<std::size_t>(cols_));
  for (std::int64_t r = 0; r < rows(); ++r)
    for (std::int64_t k = 0; k < width_; ++k) {
      const double w = weights_[static_cast<std::size_t>(r * width_ + k)];
      if (w == 0) continue;
      const auto c = static_cast<std::size_t>(first_[static_cast<std::size_t>(r)] + k);
      if (weights[c].empty()) first[c] = r;
      weights[c].resize(static_cast<std::size_t>(r - first[c] + 1), 0.0);
      weights[c].back() = w;
    }
  return BandedMatrix(rows(), std::move(first), weights);
}

void BandedMatrix::row_of_product(std::int64_t row, const float* image, std::int64_t n, float* out) const {
  rows_float(weights_single_.data() + row * width_, width_, image + first_[static_cast<std::size_t>(row)] * n, n, out);
}
void BandedMatrix::row_of_product(std::int64_t row, const double* image, std::int64_t n, double* out) const {
  rows_double(weights_.data() + row * width_, width_, image + first_[static_cast<std::size_t>(row)] * n, n, out);
}
void BandedMatrix::times_line(const float* line, float* out) const {
  columns_float(weights_single_.data(), width_, first_.data(), rows(), line, out);
}
void BandedMatrix::times_line(const double* line, double* out) const {
  columns_double(weights_.data(), width_, first_.data(), rows(), line, out);
}

}  // namespace cirrus::sky
