// A CUDA device of the tests' own: runs the blocks of a kernel one after the other on the CPU, its threads as
// coroutines that change at barriers and shuffles. It shows wrong indices, races through missing barriers and barriers
// that not all threads reach; it says nothing about speed. The build includes it in front of each kernel's file.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

namespace cirrus::device {

/// What a thread sees of the launch.
struct EmulatedThread {
  dim3 grid, block, block_index, thread_index;
};
EmulatedThread& emulated_thread();

/// Runs `thread` once for each thread of each block. Throws std::logic_error where a block's threads do not all reach
/// the same barriers, a grid is larger than CUDA allows or a block has more than 1024 threads.
void emulate(dim3 grid, dim3 block, const std::function<void()>& thread);

/// Waits for all threads of the block.
void emulated_barrier();
/// Gives `bits` to the others of the warp and takes those of lane (own lane ^ mask); all lanes take part.
std::uint64_t emulated_exchange(std::uint64_t bits, int mask);

template <typename T>
T emulated_shuffle(T value, int mask) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = emulated_exchange(bits, mask);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline void emulated_sincospi(float x, float* sine, float* cosine) {
  *sine = static_cast<float>(std::sin(M_PI * static_cast<double>(x)));
  *cosine = static_cast<float>(std::cos(M_PI * static_cast<double>(x)));
}

}  // namespace cirrus::device

// CUDA's own names, which its headers give to nvcc alone.
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#define gridDim (::cirrus::device::emulated_thread().grid)
#define blockDim (::cirrus::device::emulated_thread().block)
#define blockIdx (::cirrus::device::emulated_thread().block_index)
#define threadIdx (::cirrus::device::emulated_thread().thread_index)
#define __syncthreads() ::cirrus::device::emulated_barrier()
#define __shfl_xor_sync(lanes, value, mask) ::cirrus::device::emulated_shuffle(value, mask)
#define sincospif(x, sine, cosine) ::cirrus::device::emulated_sincospi(x, sine, cosine)
