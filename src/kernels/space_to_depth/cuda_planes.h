// Full-resolution planes as the CUDA kernels of this folder see them: neighbours on a line lie together, lines, planes
// and samples anywhere.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define CIRRUS_DEVICE __host__ __device__
#else
#define CIRRUS_DEVICE
#endif

namespace cirrus::kernels::cuda {

struct Planes {
  const float* pixels;
  std::int64_t count;                ///< of each sample
  std::int64_t sample, plane, line;  ///< strides, in values
  /// The upper left one of the four pixels of pixel (y, x) at half resolution, on the first plane.
  CIRRUS_DEVICE const float* at(std::int64_t n, std::int64_t y, std::int64_t x) const {
    return pixels + n * sample + 2 * y * line + 2 * x;
  }
};

}  // namespace cirrus::kernels::cuda
#undef CIRRUS_DEVICE
