// The addresses of a batch's samples, as a parameter of the CUDA kernel that makes their noise: nothing is copied to
// the device, so that a launch can be recorded in a graph.
#pragma once

#include <cstdint>

namespace cirrus::kernels::cuda {

struct Items {
  static constexpr int kMost = 400;  // a launch's parameters may take 4 KiB; more samples take more launches
  int count = 0;
  std::uint64_t item[kMost];
};

}  // namespace cirrus::kernels::cuda
