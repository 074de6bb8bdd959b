// Where many averages and their weights are: the parameter of one launch that updates them all. A launch's parameters
// may take 4 KiB; more tensors than fit take more launches.
#pragma once

#include <cstdint>

namespace cirrus::kernels::cuda {

struct Pairs {
  static constexpr int kMost = 120;
  static constexpr std::int64_t kChunk = 8192;  ///< values that one block updates
  int count = 0;
  int first_chunk[kMost + 1] = {};  ///< chunks before each tensor; last: all
  float* averaged[kMost];
  const float* weights[kMost];
  std::int64_t values[kMost];
};
static_assert(sizeof(Pairs) <= 4000);

}  // namespace cirrus::kernels::cuda
