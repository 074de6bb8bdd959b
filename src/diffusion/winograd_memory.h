// Memory that the CPU's 3 x 3 convolution takes while it works, for planning.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cirrus::diffusion {

/// Bytes of the sums of a weight's gradient, the largest buffer of kernels/convolution: 36 matrices, once for each 256
/// tiles of 4 x 4 pixels, at most 32 times. 0 where the convolution is not Winograd's.
inline double winograd_memory(std::int64_t in, std::int64_t out, double pixels) {
  if (in % 16 != 0 || out % 16 != 0) return 0;
  return 36 * 4 * static_cast<double>(in * out) * std::clamp(pixels / (16 * 256), 1.0, 32.0);
}

}  // namespace cirrus::diffusion
