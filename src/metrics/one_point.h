// One-point statistics and structure functions: the shape of the brightness distribution, whose tail is where stars
// form, and the moments of brightness differences at a distance, which measure intermittency.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <span>
#include <vector>

namespace cirrus::metrics {

struct OnePoint {
  double mean = 0, std = 0;           ///< population moments
  double skewness = 0;                ///< third standardised moment; Gaussian 0
  double kurtosis = 0;                ///< fourth standardised moment minus 3; Gaussian 0
  std::array<double, 7> quantiles{};  ///< at kQuantiles
};
inline constexpr std::array<double, 7> kQuantiles = {0.001, 0.01, 0.16, 0.5, 0.84, 0.99, 0.999};

/// Statistics of all pixels of a map [H, W]. skewness and kurtosis are NaN for a constant map.
OnePoint one_point(const at::Tensor& map);

/// S_p(l) = <|I(x + l) - I(x)|^p> over pixel pairs along both axes, for each lag l >= 1 in pixels: out[i] belongs to
/// lags[i]. Throws Error(bad_data) for a lag that does not fit into the map.
std::vector<double> structure_function(const at::Tensor& map, double order, std::span<const int64_t> lags);

}  // namespace cirrus::metrics
