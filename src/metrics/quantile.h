// Quantiles with linear interpolation between order statistics (Hyndman and Fan 1996, type 7: numpy's and R's default)
// and the median, which for an even number of values is the mean of the middle two (at::median takes the lower one).
#pragma once

#include <ATen/ATen.h>

#include <span>
#include <vector>

namespace cirrus::metrics {

/// The quantiles at probabilities q in [0, 1] of a float64 tensor of any shape, in the order of `q`.
/// Throws Error(bad_data) without values.
std::vector<double> quantiles(const at::Tensor& x, std::span<const double> q);

/// The median; named apart from at::median, which argument-dependent lookup would find.
double median_of(const at::Tensor& x);
double median_of(std::vector<double> x);

}  // namespace cirrus::metrics
