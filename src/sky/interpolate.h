// Interpolation of periodic fields at arbitrary positions: the inner loop of advection and of domain warping.
#pragma once

#include <cstdint>

namespace cirrus::sky {

/// A periodic field [height, width], row-major, with 1 or 2 values a point (interleaved).
struct PeriodicField {
  const float* values;
  std::int64_t height, width;
};

/// out[i] = field at (y[i], x[i]) in pixels, Catmull-Rom cubic; positions wrap.
void sample_cubic(const PeriodicField& field, const float* y, const float* x, std::int64_t n, float* out);

/// first[i], second[i] = the two interleaved values of the field at (y[i], x[i]), bilinear; positions wrap.
void sample_pair(const PeriodicField& field, const float* y, const float* x, std::int64_t n, float* first,
                 float* second);

}  // namespace cirrus::sky
