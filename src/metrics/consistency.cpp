// Residuals of the degraded output.
#include "metrics/consistency.h"

#include "metrics/map.h"
#include "metrics/transform.h"
#include "sky/degrade.h"

namespace cirrus::metrics {

Consistency consistency(const Case& question, const at::Tensor& output) {
  const at::Tensor map = as_map(output, "the output");
  const double sigma = question.kernel();
  const sky::Degradation degradation(map.size(0), map.size(1), sigma, question.factor);
  const at::Tensor residual = degradation.apply(map) - question.lr;
  if (question.block_mode()) {
    const double a = Transform::of(question.lr).a;
    return {.flux_error = (residual.abs() / question.lr.abs().clamp_min(a)).max().item<double>(), .chi2 = {}};
  }
  if (!question.noise || *question.noise == 0) return {};
  const int64_t border = static_cast<int64_t>(std::ceil(4 * sigma / static_cast<double>(question.factor)));
  const int64_t rows = residual.size(0) - 2 * border, columns = residual.size(1) - 2 * border;
  if (rows < 1 || columns < 1) return {};
  const at::Tensor inner = residual.narrow(0, border, rows).narrow(1, border, columns) / *question.noise;
  return {.flux_error = {}, .chi2 = inner.square().mean().item<double>()};
}

}  // namespace cirrus::metrics
