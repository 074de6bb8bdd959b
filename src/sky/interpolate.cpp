// Bilinear and Catmull-Rom interpolation in periodic fields (Keys 1981 with a = -1/2). Compiled without ATen, for
// several instruction sets.
#include "sky/interpolate.h"

#include <cmath>

#include "sky/clones.h"

namespace cirrus::sky {
namespace {

/// The cell a coordinate lies in, wrapped into [0, n), and the fraction within it.
struct Cell {
  std::int32_t index;
  float fraction;
};

[[gnu::always_inline]] inline Cell cell(float position, float n, float inverse) {
  float p = position - n * std::floor(position * inverse);
  p = p >= n ? 0.0f : (p < 0.0f ? 0.0f : p);  // rounding at the seam
  const auto index = static_cast<std::int32_t>(p);
  return {index, p - static_cast<float>(index)};
}

[[gnu::always_inline]] inline void cubic_weights(float t, float* w) {
  const float t2 = t * t, t3 = t2 * t;
  w[0] = 0.5f * (-t3 + 2 * t2 - t);
  w[1] = 0.5f * (3 * t3 - 5 * t2 + 2);
  w[2] = 0.5f * (-3 * t3 + 4 * t2 + t);
  w[3] = 0.5f * (t3 - t2);
}

}  // namespace

[[CIRRUS_CLONES]] void sample_cubic(const PeriodicField& field, const float* y, const float* x, std::int64_t n,
                                    float* out) {
  const auto h = static_cast<std::int32_t>(field.height), w = static_cast<std::int32_t>(field.width);
  const float height = static_cast<float>(h), width = static_cast<float>(w);
  for (std::int64_t i = 0; i < n; ++i) {
    const Cell cy = cell(y[i], height, 1 / height), cx = cell(x[i], width, 1 / width);
    float wy[4], wx[4];
    cubic_weights(cy.fraction, wy);
    cubic_weights(cx.fraction, wx);
    const bool inside = cx.index >= 1 && cx.index + 2 < w;
    float sum = 0;
    for (std::int32_t a = 0; a < 4; ++a) {
      std::int32_t row = cy.index + a - 1;
      row = row < 0 ? row + h : (row >= h ? row - h : row);
      const float* line = field.values + static_cast<std::int64_t>(row) * w;
      if (inside) {
        const float* p = line + cx.index - 1;
        sum += wy[a] * ((wx[0] * p[0] + wx[1] * p[1]) + (wx[2] * p[2] + wx[3] * p[3]));
      } else {
        for (std::int32_t b = 0; b < 4; ++b) sum += wy[a] * wx[b] * line[(cx.index + b - 1 + w) % w];
      }
    }
    out[i] = sum;
  }
}

[[CIRRUS_CLONES]] void sample_pair(const PeriodicField& field, const float* y, const float* x, std::int64_t n,
                                   float* first, float* second) {
  const auto h = static_cast<std::int32_t>(field.height), w = static_cast<std::int32_t>(field.width);
  const float height = static_cast<float>(h), width = static_cast<float>(w);
  for (std::int64_t i = 0; i < n; ++i) {
    const Cell cy = cell(y[i], height, 1 / height), cx = cell(x[i], width, 1 / width);
    const std::int32_t below = cy.index + 1 == h ? 0 : cy.index + 1, right = cx.index + 1 == w ? 0 : cx.index + 1;
    const float* top = field.values + 2 * static_cast<std::int64_t>(cy.index) * w;
    const float* bottom = field.values + 2 * static_cast<std::int64_t>(below) * w;
    const float ty = cy.fraction, tx = cx.fraction;
    const float a = (1 - ty) * (1 - tx), b = (1 - ty) * tx, c = ty * (1 - tx), d = ty * tx;
    first[i] = a * top[2 * cx.index] + b * top[2 * right] + c * bottom[2 * cx.index] + d * bottom[2 * right];
    second[i] =
        a * top[2 * cx.index + 1] + b * top[2 * right + 1] + c * bottom[2 * cx.index + 1] + d * bottom[2 * right + 1];
  }
}

}  // namespace cirrus::sky
