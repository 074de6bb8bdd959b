// Does an output agree with the map it was made from? Degraded, it must return the map: exactly where the map is a
// block mean, within the noise where a beam lies between.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "metrics/case.h"

namespace cirrus::metrics {

/// At most one of the two is defined.
struct Consistency {
  std::optional<double>
      flux_error;              ///< block mode: max over pixels of |block mean - LR| / max(|LR|, a), a of Transform
  std::optional<double> chi2;  ///< beam mode with known noise: mean of ((LR - D out) / noise)^2; the truth has 1
};

/// output [s h, s w]. D = Gaussian of sigma Case::kernel(), then block mean; LR pixels nearer than 4 sigma to the
/// border are left out of chi2, which is empty if none remains.
Consistency consistency(const Case& question, const at::Tensor& output);

}  // namespace cirrus::metrics
