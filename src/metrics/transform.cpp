// Robust constants of T.
#include "metrics/transform.h"

#include "metrics/map.h"
#include "metrics/quantile.h"

namespace cirrus::metrics {

Transform Transform::of(const at::Tensor& lr) {
  const at::Tensor map = as_map(lr, "the low-resolution map");
  const double m = median_of(map);
  const double mad = 1.4826 * median_of((map - m).abs());
  const double std = rms(map - map.mean());
  return {m, mad > 1e-3 * std ? mad : std + 1e-30};
}

}  // namespace cirrus::metrics
