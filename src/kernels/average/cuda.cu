// The moving average of weights as a CUDA kernel: one launch for all tensors, a block for each chunk of one.
#include "device/cuda/launch.cuh"
#include "kernels/average/cuda_pairs.h"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

__global__ void __launch_bounds__(kThreads) average(const __grid_constant__ Pairs pairs, const float* share) {
  const float s = *share;
  for (int chunk = static_cast<int>(blockIdx.x); chunk < pairs.first_chunk[pairs.count];
       chunk += static_cast<int>(gridDim.x)) {
    int low = 0, high = pairs.count;  // the tensor with first_chunk[tensor] <= chunk < first_chunk[tensor + 1]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (pairs.first_chunk[middle] <= chunk)
        low = middle;
      else
        high = middle;
    }
    const std::int64_t begin = (chunk - pairs.first_chunk[low]) * Pairs::kChunk, left = pairs.values[low] - begin,
                       n = left < Pairs::kChunk ? left : Pairs::kChunk;
    float* a = pairs.averaged[low] + begin;
    const float* w = pairs.weights[low] + begin;
    const bool wide = (reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(w)) % 16 == 0;
    const std::int64_t whole = wide ? n / 4 * 4 : 0;
    for (std::int64_t i = threadIdx.x * 4; i < whole; i += 4 * kThreads) {
      const Values<4> p = load<4>(a + i), q = load<4>(w + i);
      store<4>(a + i, each<4>([&](int k) { return p.v[k] + s * (q.v[k] - p.v[k]); }));
    }
    for (std::int64_t i = whole + threadIdx.x; i < n; i += kThreads) a[i] += s * (w[i] - a[i]);
  }
}

}  // namespace

void run_average_weights(const Pairs& pairs, const float* share, CudaStream stream) {
  launch(average, blocks(pairs.first_chunk[pairs.count]), kThreads, stream, pairs, share);
}

}  // namespace cirrus::kernels::cuda
