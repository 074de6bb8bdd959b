// Windows along one axis of a field, and the weights by which their estimates are fused.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace cirrus::diffusion {

/// Windows along one axis: where they start, and the weight of each of their pixels; at each field pixel the weights
/// sum to 1.
struct TileAxis {
  std::int64_t length = 0, tile = 0;
  std::vector<std::int64_t> starts;
  std::vector<std::vector<float>> weights;

  std::int64_t count() const { return static_cast<std::int64_t>(starts.size()); }
};

/// Plans an axis of `length` pixels (a multiple of `alignment`). tile 0, or at least `length`: one window. overlap < 0:
/// half a tile. `exact`: overlap is twice `radius`, hard cuts. Throws Error(usage) if tile or overlap do not fit
/// together.
TileAxis plan_axis(std::int64_t length, std::int64_t tile, std::int64_t overlap, bool exact, std::int64_t radius,
                   std::int64_t alignment);

/// The weights of all windows, [windows, tile].
at::Tensor weights_of(const TileAxis& axis, const at::Device& device);

}  // namespace cirrus::diffusion
