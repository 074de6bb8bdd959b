// Maps continued beyond their borders by half-sample reflection (scipy mode "reflect"): what a telescope sees of the
// sky around a map is unknown, and a mirror keeps level and texture without a step.
#pragma once

#include <ATen/ATen.h>

namespace cirrus::enhance {

/// map: [..., H, W] -> [..., top + H + bottom, left + W + right]; pads may exceed the map's size.
at::Tensor mirror_pad(const at::Tensor& map, std::int64_t top, std::int64_t bottom, std::int64_t left,
                      std::int64_t right);

}  // namespace cirrus::enhance
