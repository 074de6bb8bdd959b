// Addressed dropout as a CUDA kernel: a thread makes one Philox block, which decides over four neighbouring values.
#include "base/random.h"
#include "device/cuda/launch.cuh"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    dropout(const T* x, T* y, const std::int64_t* items, std::uint64_t seed, std::uint32_t layer,
            std::uint32_t threshold, float scale, std::int64_t samples, std::int64_t values, bool wide) {
  for (std::int64_t n = blockIdx.y; n < samples; n += gridDim.y) {
    const Address address(seed, Purpose::dropout, static_cast<std::uint64_t>(items[n]), layer);
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; 4 * i < values;
         i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
      const auto words = address.block(static_cast<std::uint64_t>(i));
      const std::int64_t at = n * values + 4 * i;
      if (wide) {
        const Values<4> v = load<4>(x + at);
        store<4>(y + at, each<4>([&](int k) { return words[k] >= threshold ? v.v[k] * scale : 0.f; }));
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (4 * i + k < values) set(y[at + k], words[k] >= threshold ? to_float(x[at + k]) * scale : 0.f);
      }
    }
  }
}

}  // namespace

void run_dropout(Element type, const void* x, void* y, const std::int64_t* items, std::uint64_t seed,
                 std::uint32_t layer, std::uint32_t threshold, float scale, std::int64_t samples, std::int64_t values,
                 bool is_aligned, CudaStream stream) {
  if (samples * values == 0) return;
  by_element(type, [&]<typename T>(T*) {
    launch(dropout<T>, dim3(blocks(divided_up(values, 4 * kThreads)), blocks_across(samples)), kThreads, stream,
           static_cast<const T*>(x), static_cast<T*>(y), items, seed, layer, threshold, scale, samples, values,
           is_aligned && values % 4 == 0);
  });
}

}  // namespace cirrus::kernels::cuda
