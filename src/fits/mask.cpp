// Filling, averaging and masking of images with missing pixels; see mask.h.
#include "fits/mask.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/errors.h"

namespace cirrus::fits {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void require_size(std::size_t size, std::int64_t width, std::int64_t height) {
  if (width < 1 || height < 1 || static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height) != size) {
    throw Error(ExitCode::internal, "an image of " + std::to_string(size) + " pixels is not " + std::to_string(width) +
                                        " x " + std::to_string(height));
  }
}

/// Linear interpolation between the centres of 2 x 2 blocks, at pixel i of the finer image: block a (weight 3/4) and b
/// (1/4).
struct Neighbours {
  std::int64_t a, b;
};
Neighbours neighbours(std::int64_t i, std::int64_t coarse_size) {
  const std::int64_t a = i / 2;
  return {a, std::clamp(a + (i % 2 == 0 ? -1 : 1), std::int64_t{0}, coarse_size - 1)};
}

/// Fills NaN pixels of one level from the next coarser one, made of 2 x 2 means of valid pixels and filled likewise.
void pull_push(std::span<double> pixels, std::int64_t width, std::int64_t height) {
  if (std::none_of(pixels.begin(), pixels.end(), [](double v) { return std::isnan(v); })) return;
  const std::int64_t w = (width + 1) / 2, h = (height + 1) / 2;
  std::vector<double> coarse(static_cast<std::size_t>(w * h), kNaN);
  for (std::int64_t y = 0; y < h; ++y) {
    for (std::int64_t x = 0; x < w; ++x) {
      double sum = 0.0;
      int count = 0;
      for (std::int64_t v = 2 * y; v < std::min(2 * y + 2, height); ++v) {
        for (std::int64_t u = 2 * x; u < std::min(2 * x + 2, width); ++u) {
          const double value = pixels[static_cast<std::size_t>(v * width + u)];
          if (!std::isnan(value)) sum += value, ++count;
        }
      }
      if (count > 0) coarse[static_cast<std::size_t>(y * w + x)] = sum / count;
    }
  }
  pull_push(coarse, w, h);
  for (std::int64_t y = 0; y < height; ++y) {
    const auto [ya, yb] = neighbours(y, h);
    for (std::int64_t x = 0; x < width; ++x) {
      double& pixel = pixels[static_cast<std::size_t>(y * width + x)];
      if (!std::isnan(pixel)) continue;
      const auto [xa, xb] = neighbours(x, w);
      const auto at = [&](std::int64_t v, std::int64_t u) { return coarse[static_cast<std::size_t>(v * w + u)]; };
      pixel = 0.75 * (0.75 * at(ya, xa) + 0.25 * at(ya, xb)) + 0.25 * (0.75 * at(yb, xa) + 0.25 * at(yb, xb));
    }
  }
}

}  // namespace

std::vector<std::uint8_t> invalid_mask(std::span<const double> pixels) {
  std::vector<std::uint8_t> mask(pixels.size());
  std::transform(pixels.begin(), pixels.end(), mask.begin(),
                 [](double value) -> std::uint8_t { return std::isfinite(value) ? 0 : 1; });
  return mask;
}

std::int64_t fill_invalid(std::span<double> pixels, std::int64_t width, std::int64_t height) {
  require_size(pixels.size(), width, height);
  std::int64_t count = 0;
  for (double& value : pixels) {
    if (!std::isfinite(value)) value = kNaN, ++count;
  }
  if (count == width * height) {
    throw Error(ExitCode::bad_data, "every pixel is blank (NaN or infinite)", "choose another HDU, plane or section");
  }
  pull_push(pixels, width, height);
  return count;
}

std::vector<std::uint8_t> upscale_mask(std::span<const std::uint8_t> mask, std::int64_t width, std::int64_t height,
                                       int s) {
  require_size(mask.size(), width, height);
  std::vector<std::uint8_t> out;
  out.reserve(mask.size() * static_cast<std::size_t>(s) * static_cast<std::size_t>(s));
  for (std::int64_t y = 0; y < height * s; ++y) {
    const auto row = mask.subspan(static_cast<std::size_t>(y / s * width), static_cast<std::size_t>(width));
    for (const std::uint8_t value : row) out.insert(out.end(), static_cast<std::size_t>(s), value);
  }
  return out;
}

void apply_mask(std::span<double> pixels, std::span<const std::uint8_t> mask) {
  require_size(pixels.size(), static_cast<std::int64_t>(mask.size()), 1);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (mask[i] != 0) pixels[i] = kNaN;
  }
}

std::vector<double> block_mean(std::span<const double> pixels, std::int64_t width, std::int64_t height, int s) {
  require_size(pixels.size(), width, height);
  const std::int64_t w = width / s, h = height / s;
  std::vector<double> out(static_cast<std::size_t>(w * h), kNaN);
  for (std::int64_t y = 0; y < h; ++y) {
    for (std::int64_t x = 0; x < w; ++x) {
      double sum = 0.0;
      int count = 0;
      for (std::int64_t v = y * s; v < (y + 1) * s; ++v) {
        for (std::int64_t u = x * s; u < (x + 1) * s; ++u) {
          const double value = pixels[static_cast<std::size_t>(v * width + u)];
          if (std::isfinite(value)) sum += value, ++count;
        }
      }
      if (count > 0) out[static_cast<std::size_t>(y * w + x)] = sum / count;
    }
  }
  return out;
}

std::vector<double> block_sum(std::span<const double> pixels, std::int64_t width, std::int64_t height, int s) {
  std::vector<double> out = block_mean(pixels, width, height, s);
  for (double& value : out) value *= static_cast<double>(s) * s;
  return out;
}

}  // namespace cirrus::fits
