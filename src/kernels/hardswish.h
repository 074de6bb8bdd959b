// The activation of the CPU kernels, one value at a time: hardswish (Howard et al. 2019) at unit rms, and its slope.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/activation.h"

namespace cirrus::kernels {

inline constexpr float kHardswishGain = static_cast<float>(1.0 / kHardswishRms);

inline float hardswish(float x) {
  // Clamped to [0, 6] as whole numbers: the bits of non-negative floats have their order, and compilers that must heed
  // NaN make several instructions of a clamp of floats.
  constexpr auto kSix = std::bit_cast<std::int32_t>(6.f);
  const float r = std::bit_cast<float>(std::min(std::max(std::bit_cast<std::int32_t>(x + 3.f), 0), kSix));
  return x * r * (kHardswishGain / 6.f);
}
/// Derivative of hardswish(x): 0 below -3, 1 above 3, (2x + 3)/6 between; times the gain.
inline float hardswish_slope(float x) {
  const float inner = (2.f * x + 3.f) * (1.f / 6.f);
  const float v = x < -3.f ? 0.f : (x > 3.f ? 1.f : inner);
  return v * kHardswishGain;
}

}  // namespace cirrus::kernels
