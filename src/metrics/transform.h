// The scale on which maps are compared: T(I) = asinh((I - m) / a), linear around the median and logarithmic in the
// bright tail, so that faint and bright structure both count. m and a come from the low-resolution map, never from the
// truth or a tile.
#pragma once

#include <ATen/ATen.h>

#include <cmath>

namespace cirrus::metrics {

/// T and its inverse, with m and a in the map's unit.
struct Transform {
  double m = 0;
  double a = 1;

  /// m = median(LR), a = 1.4826 median|LR - m| (the standard deviation of a Gaussian); where that is at most 1e-3 of
  /// the map's standard deviation (mostly constant maps), a = that standard deviation. lr: [h, w] in the map's unit.
  static Transform of(const at::Tensor& lr);
  /// The same without that exception.
  static Transform robust(const at::Tensor& lr);

  at::Tensor forward(const at::Tensor& map) const { return ((map - m) / a).asinh(); }
  at::Tensor inverse(const at::Tensor& t) const { return t.sinh() * a + m; }
  double forward(double x) const { return std::asinh((x - m) / a); }
};

}  // namespace cirrus::metrics
