// Order statistics by one sort (several quantiles) or one selection (the median).
#include "metrics/quantile.h"

#include <algorithm>

#include "base/errors.h"

namespace cirrus::metrics {
namespace {

std::vector<double> copy_of(const at::Tensor& x) {
  const at::Tensor flat = x.to(at::kCPU, at::kDouble).contiguous();
  const double* p = flat.const_data_ptr<double>();
  return {p, p + flat.numel()};
}

void need_values(bool any) {
  if (!any) throw Error(ExitCode::bad_data, "quantile of no values", "give at least one pixel");
}

}  // namespace

std::vector<double> quantiles(const at::Tensor& x, std::span<const double> q) {
  std::vector<double> sorted = copy_of(x);
  need_values(!sorted.empty());
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> out;
  for (const double probability : q) {
    const double position = std::clamp(probability, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
    const size_t below = static_cast<size_t>(position);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    out.push_back(std::lerp(sorted[below], sorted[above], position - static_cast<double>(below)));
  }
  return out;
}

double median_of(std::vector<double> x) {
  need_values(!x.empty());
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  if (x.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(x.begin(), middle));
}

double median_of(const at::Tensor& x) { return median_of(copy_of(x)); }

}  // namespace cirrus::metrics
