// Robust constants of T.
#include "metrics/transform.h"

#include "metrics/map.h"
#include "metrics/quantile.h"

namespace cirrus::metrics {

Transform Transform::robust(const at::Tensor& lr) {
  const at::Tensor map = as_map(lr, "the low-resolution map");
  const double m = median_of(map);
  return {m, 1.4826 * median_of((map - m).abs())};
}

Transform Transform::of(const at::Tensor& lr) {
  const Transform t = robust(lr);
  const at::Tensor map = as_map(lr, "the low-resolution map");
  const double std = rms(map - map.mean());
  return {t.m, t.a > 1e-3 * std ? t.a : std + 1e-30};
}

}  // namespace cirrus::metrics
