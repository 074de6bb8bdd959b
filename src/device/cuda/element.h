// What the two halves of a CUDA operator agree on: `cuda.cpp` knows tensors and is compiled by the host compiler with
// LibTorch, `cuda.cu` knows pointers and is compiled by nvcc without it (LibTorch's headers cost nvcc half a minute a
// file).
#pragma once

#include <algorithm>
#include <cstdint>

struct CUstream_st;

namespace cirrus::device {

/// How activations are stored; arithmetic is float32 in each case.
enum class Element { float32, bfloat16, float16 };

using CudaStream = CUstream_st*;

/// As in kernels/activation.h, whose LibTorch cuda.cu does without; cuda.cpp checks that they agree.
inline constexpr double kHardswishRms = 0.5758188735513412;

/// Into how many parts sums over `rows` rows of each of `samples` samples are cut. The parts are added in a fixed
/// order, so that results do not depend on how blocks are scheduled.
inline std::int64_t reduction_parts(std::int64_t rows, std::int64_t samples) {
  const std::int64_t most = std::clamp<std::int64_t>(2048 / std::max<std::int64_t>(samples, 1), 1, 64);
  return std::clamp<std::int64_t>((rows + 255) / 256, 1, most);
}

}  // namespace cirrus::device
