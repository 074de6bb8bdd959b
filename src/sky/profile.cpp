// Rasters of filaments, Gaussians and contour lines.
#include "sky/profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sky/clones.h"

namespace cirrus::sky {
namespace {

constexpr float kFar = std::numeric_limits<float>::max();

/// Squared distance of the pixels of a row from x = begin on to a segment; where it is smaller than before, it and the
/// weight are kept.
[[CIRRUS_CLONES]] void nearest_in_row(float y, std::int64_t begin, std::int64_t end, const CurvePoint& a,
                                      const CurvePoint& b, float* __restrict nearest, float* __restrict weight) {
  const float dy = b.y - a.y, dx = b.x - a.x, inverse = 1.0f / (dy * dy + dx * dx + 1e-12f);
  const float py = y - a.y, along_y = py * dy;
  const float wa = a.weight, wd = b.weight - a.weight, ax = a.x;
  for (std::int64_t i = begin; i < end; ++i) {
    const float px = static_cast<float>(static_cast<std::int32_t>(i)) - ax;
    float t = (along_y + px * dx) * inverse;
    t = t < 0 ? 0 : (t > 1 ? 1 : t);
    const float ry = py - t * dy, rx = px - t * dx, distance = ry * ry + rx * rx;
    const bool closer = distance < nearest[i];
    nearest[i] = closer ? distance : nearest[i];
    weight[i] = closer ? wa + t * wd : weight[i];
  }
}

struct Box {
  std::int64_t top, bottom, left, right;  // half-open
  Box(const Raster& image, double y0, double y1, double x0, double x1)
      : top(std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(y0)), 0, image.height)),
        bottom(std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(y1)) + 1, 0, image.height)),
        left(std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(x0)), 0, image.width)),
        right(std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(x1)) + 1, 0, image.width)) {}
};

}  // namespace

void add_gaussian(const Raster& image, const EllipticalGaussian& g) {
  const double reach = 4 * g.major, s = std::sin(g.angle), c = std::cos(g.angle);
  const Box box(image, g.y - reach, g.y + reach, g.x - reach, g.x + reach);
  for (std::int64_t y = box.top; y < box.bottom; ++y)
    for (std::int64_t x = box.left; x < box.right; ++x) {
      const double py = static_cast<double>(y) - g.y, px = static_cast<double>(x) - g.x;
      const double along = (px * c + py * s) / g.major, across = (py * c - px * s) / g.minor;
      image.values[y * image.width + x] +=
          static_cast<float>(g.peak * std::exp(-0.5 * (along * along + across * across)));
    }
}

FilamentPainter::FilamentPainter(std::int64_t height, std::int64_t width)
    : nearest_(static_cast<std::size_t>(height * width), kFar), weight_(nearest_.size(), 0.0f) {}

void FilamentPainter::add(const Raster& image, const std::vector<CurvePoint>& curve, double flat_radius, double p,
                          double contrast) {
  const double reach = 8 * flat_radius;
  const auto range = [&](std::size_t i) {
    const CurvePoint &a = curve[i], &b = curve[i + 1];
    return Box(image, std::min(a.y, b.y) - reach, std::max(a.y, b.y) + reach, std::min(a.x, b.x) - reach,
               std::max(a.x, b.x) + reach);
  };
  for (std::size_t i = 0; i + 1 < curve.size(); ++i) {
    const Box box = range(i);
    for (std::int64_t y = box.top; y < box.bottom; ++y)
      nearest_in_row(static_cast<float>(y), box.left, box.right, curve[i], curve[i + 1],
                     nearest_.data() + y * image.width, weight_.data() + y * image.width);
  }
  const auto scale = static_cast<float>(1 / (flat_radius * flat_radius)), exponent = static_cast<float>((1 - p) / 2);
  for (std::size_t i = 0; i + 1 < curve.size(); ++i) {  // each pixel once: it is reset after it is drawn
    const Box box = range(i);
    for (std::int64_t y = box.top; y < box.bottom; ++y)
      for (std::int64_t x = box.left; x < box.right; ++x) {
        const auto at = static_cast<std::size_t>(y * image.width + x);
        if (nearest_[at] == kFar) continue;
        const float q = nearest_[at] * scale, fade = std::max(0.0f, 1 - q / 64);
        if (fade > 0)
          image.values[at] += static_cast<float>(contrast) * weight_[at] * fade * fade * std::pow(1 + q, exponent);
        nearest_[at] = kFar;
      }
  }
}

[[CIRRUS_CLONES]] void add_contour_line(const Raster& image, const float* g, double level, double radius,
                                        const float* weight) {
  const std::int64_t h = image.height, w = image.width;
  const auto squared_radius = static_cast<float>(radius * radius), at = static_cast<float>(level);
  for (std::int64_t y = 0; y < h; ++y) {
    const float *up = g + std::max<std::int64_t>(y - 1, 0) * w, *down = g + std::min(y + 1, h - 1) * w,
                *here = g + y * w;
    float* out = image.values + y * w;
    for (std::int64_t x = 0; x < w; ++x) {
      const std::int64_t left = x > 0 ? x - 1 : 0,
                         right = x + 1 < w ? x + 1 : x;  // one-sided, half as steep, at the border
      const float gy = 0.5f * (down[x] - up[x]), gx = 0.5f * (here[right] - here[left]), value = here[x] - at;
      const float scale = (gy * gy + gx * gx) * squared_radius + 1e-20f;
      out[x] += weight[y * w + x] * scale / (scale + value * value);
    }
  }
}

}  // namespace cirrus::sky
