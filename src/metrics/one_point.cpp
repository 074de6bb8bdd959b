// Moments in two passes, differences by slices.
#include "metrics/one_point.h"

#include "base/errors.h"
#include "metrics/map.h"
#include "metrics/quantile.h"

namespace cirrus::metrics {

OnePoint one_point(const at::Tensor& map) {
  const at::Tensor x = as_map(map, "the map");
  OnePoint statistics;
  statistics.mean = x.mean().item<double>();
  const at::Tensor d = x - statistics.mean;
  const double m2 = d.square().mean().item<double>();
  statistics.std = std::sqrt(m2);
  statistics.skewness = d.pow(3).mean().item<double>() / (m2 * statistics.std);
  statistics.kurtosis = d.pow(4).mean().item<double>() / (m2 * m2) - 3;
  const std::vector<double> q = quantiles(x, kQuantiles);
  std::copy(q.begin(), q.end(), statistics.quantiles.begin());
  return statistics;
}

std::vector<double> structure_function(const at::Tensor& map, double order, std::span<const int64_t> lags) {
  const at::Tensor x = as_map(map, "the map");
  std::vector<double> s;
  for (const int64_t lag : lags) {
    double sum = 0, pairs = 0;
    for (int64_t axis = 0; axis < 2; ++axis) {
      const int64_t n = x.size(axis) - lag;
      if (lag < 1 || n < 1)
        throw Error(ExitCode::bad_data, "a lag of " + std::to_string(lag) + " pixels does not fit into the map");
      const at::Tensor difference = x.narrow(axis, lag, n) - x.narrow(axis, 0, n);
      sum += difference.abs().pow(order).sum().item<double>();
      pairs += static_cast<double>(difference.numel());
    }
    s.push_back(sum / pairs);
  }
  return s;
}

}  // namespace cirrus::metrics
