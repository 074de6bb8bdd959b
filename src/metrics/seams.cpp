// Steps across pixel boundaries, one figure a boundary.
#include "metrics/seams.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "metrics/map.h"
#include "metrics/quantile.h"

namespace cirrus::metrics {
namespace {

/// For each boundary between columns: the median over rows of the absolute step across it.
std::vector<double> median_steps(const at::Tensor& error) {
  const at::Tensor steps = error.diff(1, 1).abs().t().contiguous();
  std::vector<double> medians;
  for (int64_t i = 0; i < steps.size(0); ++i) medians.push_back(median_of(steps[i]));
  return medians;
}

/// Running median of 15 with the ends replicated.
std::vector<double> running_median(const std::vector<double>& v) {
  constexpr int64_t kHalf = 7;
  const int64_t n = static_cast<int64_t>(v.size());
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> window;
    for (int64_t j = i - kHalf; j <= i + kHalf; ++j) window.push_back(v[std::clamp(j, int64_t{0}, n - 1)]);
    out.push_back(median_of(std::move(window)));
  }
  return out;
}

/// seam and grid of the boundaries between columns.
Seams between_columns(const at::Tensor& error, const at::Tensor& bicubic_error, int64_t factor) {
  const std::vector<double> steps = median_steps(error);
  std::vector<double> relative = median_steps(bicubic_error);
  if (*std::max_element(steps.begin(), steps.end()) <= 0) return {};
  const double floor = 0.1 * median_of(relative);
  const int64_t n = static_cast<int64_t>(steps.size());
  double on_edge = 0, inside = 0;
  int64_t edges = 0;
  for (int64_t i = 0; i < n; ++i) {
    const bool edge = (i + 1) % factor == 0;
    (edge ? on_edge : inside) += steps[i];
    edges += edge;
    relative[i] = steps[i] / std::max(relative[i], floor);
  }
  double peak = 0;
  for (int64_t phase = 0; phase < factor; ++phase) {
    std::vector<double> v;
    for (int64_t i = phase; i < n; i += factor) v.push_back(relative[i]);
    const std::vector<double> usual = running_median(v);
    for (size_t i = 2; i + 2 < v.size(); ++i) peak = std::max(peak, v[i] / std::max(usual[i], 1e-300));
  }
  return {peak, on_edge / static_cast<double>(edges) / (inside / static_cast<double>(n - edges))};
}

}  // namespace

std::optional<Seams> seams(const at::Tensor& error, const at::Tensor& bicubic_error, int64_t factor) {
  const at::Tensor e = as_map(error, "the error"), b = as_map(bicubic_error, "bicubic's error");
  if (factor < 2 || std::min(e.size(0), e.size(1)) < 6 * factor) return std::nullopt;
  const Seams columns = between_columns(e, b, factor);
  const Seams rows = between_columns(e.t().contiguous(), b.t().contiguous(), factor);
  return Seams{std::max(columns.seam, rows.seam), (columns.grid + rows.grid) / 2};
}

}  // namespace cirrus::metrics
