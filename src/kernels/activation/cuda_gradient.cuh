// The gradient of hardswish(x scale), scale by sample and channel, for the operators that end in it.
#pragma once

#include "device/cuda/launch.cuh"

namespace cirrus::kernels::cuda {

/// Gives store(n, row, channel, gradient of V values of x), and of each of gridDim.x parts of a sample's rows the sums
/// that make the gradient of scale: parts [samples, gridDim.x, channels].
template <int V, typename T, typename Store>
__device__ void scale_act_gradient(const T* x, const float* scale, const T* g, float* parts, std::int64_t samples,
                                   std::int64_t rows, std::int64_t channels, Store&& store_at) {
  using namespace cirrus::device;
  for (std::int64_t n = blockIdx.y; n < samples; n += gridDim.y)
    for (std::int64_t first = 0; first < channels; first += blockDim.x * V) {  // the same for all threads: they sum up
      const std::int64_t j = first + threadIdx.x * V;
      const bool inside = j < channels;
      Values<V> sum{};
      if (inside) {
        const Values<V> s = load<V>(scale + n * channels + j);
        for (std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; r < rows;
             r += static_cast<std::int64_t>(gridDim.x) * blockDim.y) {
          const std::int64_t at = (n * rows + r) * channels + j;
          const Values<V> a = load<V>(x + at), b = load<V>(g + at);
          const Values<V> d = each<V>([&](int k) { return b.v[k] * hardswish_slope(a.v[k] * s.v[k]); });
          store_at(n, r, j, each<V>([&](int k) { return d.v[k] * s.v[k]; }));
#pragma unroll
          for (int k = 0; k < V; ++k) sum.v[k] += d.v[k] * a.v[k];
        }
      }
      sum = sum_over_rows<V>(sum);
      if (inside && threadIdx.y == 0) store<V>(parts + (n * gridDim.x + blockIdx.x) * channels + j, sum);
    }
}

}  // namespace cirrus::kernels::cuda
