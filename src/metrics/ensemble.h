// Is the spread of an ensemble honest? Fair CRPS, coverage of prediction intervals, spread over error, and the rank of
// the truth among the members (Gneiting and Raftery 2007; Fortin et al. 2014 for the factor (N + 1) / N).
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "metrics/transform.h"

namespace cirrus::metrics {

struct EnsembleFigures {
  int64_t members = 0;
  double crps = 0;           ///< fair CRPS in T, mean |x_i - t| - sum_{i<j} |x_i - x_j| / (N (N - 1)), in T's unit
  double coverage = 0;       ///< share of pixels inside the two-sided 68.27 % interval: nominal 0.683
  double coverage95 = 0;     ///< likewise 95 %
  double spread_skill = 0;   ///< sqrt(mean variance (N + 1) / N) over the RMSE of the members' mean: 1 is calibrated
  std::vector<double> rank;  ///< shares of pixels whose truth lies above 0, 1, ..., N members: flat is calibrated
};

/// members [N, H, W] and truth [H, W] in the map's unit, compared in `transform`. Intervals are Student t_{N-1} around
/// the mean, widened by sqrt(1 + 1/N), so that Gaussian members have nominal coverage at any N. Needs N >= 2 (Error
/// bad_data).
EnsembleFigures ensemble_figures(const at::Tensor& members, const at::Tensor& truth, const Transform& transform);

}  // namespace cirrus::metrics
