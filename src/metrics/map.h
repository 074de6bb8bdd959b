// What every figure of this folder is computed on: a map [H, W] as contiguous float64 on the CPU. Means over whole maps
// are double sums, so a figure does not depend on the precision or the device in which an output was made.
#pragma once

#include <ATen/ATen.h>

#include <string>

namespace cirrus::metrics {

/// The map as contiguous float64 on the CPU. Throws Error(bad_data) if it is not two-dimensional or empty; `what` names
/// it.
at::Tensor as_map(const at::Tensor& map, const std::string& what);

/// "width x height", for messages.
std::string size_text(const at::Tensor& map);

/// Root mean square.
double rms(const at::Tensor& map);

}  // namespace cirrus::metrics
