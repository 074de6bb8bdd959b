// Planning of windows along an axis.
#include "diffusion/tile_axis.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace cirrus::diffusion {
namespace {

constexpr std::int64_t kTrim =
    8;  // pixels at a window's inner border that get no weight: the network pads with zeros there

std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

}  // namespace

TileAxis plan_axis(std::int64_t length, std::int64_t tile, std::int64_t overlap, bool exact, std::int64_t radius,
                   std::int64_t alignment) {
  TileAxis axis;
  axis.length = length;
  axis.tile = tile <= 0 ? length : round_up(tile, alignment);
  if (axis.tile >= length) {
    axis.tile = length;
    axis.starts = {0};
    axis.weights = {std::vector<float>(static_cast<std::size_t>(length), 1.f)};
    return axis;
  }
  const std::int64_t shared = round_up(exact         ? 2 * radius
                                       : overlap < 0 ? axis.tile / 2
                                                     : overlap,
                                       alignment),
                     stride = axis.tile - shared;
  if (stride < alignment)
    throw Error(ExitCode::usage,
                "Tiles of " + std::to_string(axis.tile) + " pixels cannot overlap by " + std::to_string(shared),
                exact ? "--overlap exact needs --tile of at least " + std::to_string(2 * radius + alignment) +
                            ", better 3 times that"
                      : "use a smaller --overlap or a larger --tile");
  for (std::int64_t at = 0; at + axis.tile < length; at += stride) axis.starts.push_back(at);
  axis.starts.push_back(length - axis.tile);

  std::vector<double> total(static_cast<std::size_t>(length), 0.0);
  std::vector<std::vector<double>> raw;
  for (std::size_t t = 0; t < axis.starts.size(); ++t) {
    auto& w = raw.emplace_back(static_cast<std::size_t>(axis.tile), 1.0);
    const std::int64_t start = axis.starts[t], end = start + axis.tile;
    // Overlap with the neighbours as it is (the last window may overlap more).
    const std::int64_t before = t > 0 ? axis.starts[t - 1] + axis.tile - start : 0;
    const std::int64_t after = t + 1 < axis.starts.size() ? end - axis.starts[t + 1] : 0;
    for (std::int64_t i = 0; i < axis.tile; ++i) {
      const auto ramp = [&](std::int64_t inside, std::int64_t width) {  // inside: pixels from that border
        if (width == 0 || inside >= width) return 1.0;
        if (exact) return 2 * inside >= width ? 1.0 : 0.0;  // cut in the middle of the overlap, whose width is even
        const std::int64_t trim = std::min(kTrim, (width - 1) / 4);
        const double u = (static_cast<double>(inside - trim) + 0.5) / static_cast<double>(width - 2 * trim);
        return u <= 0 ? 0.0 : u >= 1 ? 1.0 : 0.5 - 0.5 * std::cos(M_PI * u);
      };
      w[static_cast<std::size_t>(i)] = ramp(i, before) * ramp(axis.tile - 1 - i, after);
      total[static_cast<std::size_t>(start + i)] += w[static_cast<std::size_t>(i)];
    }
  }
  for (std::size_t t = 0; t < raw.size(); ++t) {
    auto& w = axis.weights.emplace_back();
    for (std::size_t i = 0; i < raw[t].size(); ++i)
      w.push_back(static_cast<float>(raw[t][i] / total[static_cast<std::size_t>(axis.starts[t]) + i]));
  }
  return axis;
}

at::Tensor weights_of(const TileAxis& axis, const at::Device& device) {
  std::vector<at::Tensor> rows;
  for (const auto& w : axis.weights) rows.push_back(at::tensor(w));
  return at::stack(rows).to(device);
}

}  // namespace cirrus::diffusion
