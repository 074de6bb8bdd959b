// Interpolations as products with one small matrix an axis. The Wiener filter lives in wiener.cpp.
#include "metrics/baselines.h"

#include <algorithm>
#include <numbers>

#include "base/errors.h"
#include "metrics/map.h"

namespace cirrus::metrics {
namespace {

/// Where output pixel i lies in input pixels, for pixel-centred grids.
double input_position(int64_t i, int64_t factor) {
  return (static_cast<double>(i) + 0.5) / static_cast<double>(factor) - 0.5;
}

/// The interpolation matrix [n s, n] of one axis: row i holds kernel(p_i - j) at the 2 radius nearest samples, sum 1;
/// samples outside the map are moved into it by `fold`.
template <class Kernel, class Fold>
at::Tensor interpolation_matrix(int64_t n, int64_t factor, int64_t radius, Kernel kernel, Fold fold) {
  at::Tensor matrix = at::zeros({n * factor, n}, at::kDouble);
  auto weights = matrix.accessor<double, 2>();
  for (int64_t i = 0; i < n * factor; ++i) {
    const double p = input_position(i, factor);
    const int64_t first = static_cast<int64_t>(std::floor(p)) + 1 - radius;
    double sum = 0;
    for (int64_t j = first; j < first + 2 * radius; ++j) sum += kernel(p - static_cast<double>(j));
    for (int64_t j = first; j < first + 2 * radius; ++j)
      weights[i][fold(j, n)] += kernel(p - static_cast<double>(j)) / sum;
  }
  return matrix;
}

int64_t replicated(int64_t j, int64_t n) { return std::clamp(j, int64_t{0}, n - 1); }

int64_t mirrored(int64_t j, int64_t n) {
  const int64_t folded = ((j % (2 * n)) + 2 * n) % (2 * n);
  return folded < n ? folded : 2 * n - 1 - folded;
}

double keys(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  if (x < 2) return a * (x * x * x - 5 * x * x + 8 * x - 4);
  return 0;
}

double sinc(double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

double lanczos(double x) { return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0; }

double cubic_bspline(double x) {
  x = std::abs(x);
  if (x < 1) return 2.0 / 3 - x * x + 0.5 * x * x * x;
  if (x < 2) return (2 - x) * (2 - x) * (2 - x) / 6;
  return 0;
}

/// B-spline coefficients along the last axis, in place, mirrored at half samples: the recursive filter of Unser 1999,
/// box 2.
void spline_prefilter(at::Tensor& map) {
  const double z = std::sqrt(3.0) - 2;
  const int64_t n = map.size(1);
  const double z_n = std::pow(z, static_cast<double>(n));
  for (int64_t row = 0; row < map.size(0); ++row) {
    double* c = map.mutable_data_ptr<double>() + row * n;
    for (int64_t i = 0; i < n; ++i) c[i] *= 6;
    double start = c[0] + z_n * c[n - 1], z_i = z;
    for (int64_t i = 1; i < n; ++i, z_i *= z) start += z_i * (c[i] + z_n * c[n - 1 - i]);
    c[0] += start * z / (1 - z_n * z_n);
    for (int64_t i = 1; i < n; ++i) c[i] += z * c[i - 1];
    c[n - 1] *= z / (z - 1);
    for (int64_t i = n - 2; i >= 0; --i) c[i] = z * (c[i + 1] - c[i]);
  }
}

at::Tensor checked(const at::Tensor& lr, int64_t factor) {
  if (factor < 1) throw Error(ExitCode::usage, "the factor must be at least 1", "use 2 or 4");
  return as_map(lr, "the low-resolution map");
}

template <class Kernel, class Fold>
at::Tensor interpolate(const at::Tensor& map, int64_t factor, int64_t radius, Kernel kernel, Fold fold) {
  const at::Tensor rows = interpolation_matrix(map.size(0), factor, radius, kernel, fold);
  const at::Tensor columns = interpolation_matrix(map.size(1), factor, radius, kernel, fold);
  return at::matmul(at::matmul(rows, map), columns.t());
}

}  // namespace

at::Tensor bicubic(const at::Tensor& lr, int64_t factor) {
  return interpolate(checked(lr, factor), factor, 2, keys, replicated);
}

at::Tensor lanczos3(const at::Tensor& lr, int64_t factor) {
  return interpolate(checked(lr, factor), factor, 3, lanczos, replicated);
}

at::Tensor spline(const at::Tensor& lr, int64_t factor) {
  at::Tensor coefficients = checked(lr, factor).clone();
  for (int axis = 0; axis < 2; ++axis) {
    spline_prefilter(coefficients);
    coefficients = coefficients.t().contiguous();
  }
  return interpolate(coefficients, factor, 2, cubic_bspline, mirrored);
}

}  // namespace cirrus::metrics
