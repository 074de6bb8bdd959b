// What the CUDA kernels share: 16-byte access with arithmetic in float32, sums over lanes and blocks in a fixed order,
// and launching. No LibTorch here (see element.h).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "device/cuda/element.h"

namespace cirrus::device {

inline constexpr int kThreads = 256;  ///< of a block, at most

// ---- values

__device__ inline float to_float(float v) { return v; }
__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline float to_float(__half v) { return __half2float(v); }
__device__ inline void set(float& to, float v) { to = v; }
__device__ inline void set(__nv_bfloat16& to, float v) { to = __float2bfloat16_rn(v); }
__device__ inline void set(__half& to, float v) { to = __float2half_rn(v); }

/// V neighbouring values, in registers.
template <int V>
struct Values {
  float v[V];
};

template <typename T, int V>
struct alignas(sizeof(T) * V) Packed {
  T v[V];
};

/// Values of T in an access of 16 bytes.
template <typename T>
inline constexpr int kWidth = static_cast<int>(16 / sizeof(T));

/// Reads V values at p, which is aligned to as many, or to 16 bytes.
template <int V, typename T>
__device__ Values<V> load(const T* p) {
  constexpr int P = V < kWidth<T> ? V : kWidth<T>;
  Values<V> out;
#pragma unroll
  for (int i = 0; i < V; i += P) {
    const Packed<T, P> raw = *reinterpret_cast<const Packed<T, P>*>(p + i);
#pragma unroll
    for (int k = 0; k < P; ++k) out.v[i + k] = to_float(raw.v[k]);
  }
  return out;
}

template <int V, typename T>
__device__ void store(T* p, const Values<V>& x) {
  constexpr int P = V < kWidth<T> ? V : kWidth<T>;
#pragma unroll
  for (int i = 0; i < V; i += P) {
    Packed<T, P> raw;
#pragma unroll
    for (int k = 0; k < P; ++k) set(raw.v[k], x.v[i + k]);
    *reinterpret_cast<Packed<T, P>*>(p + i) = raw;
  }
}

/// Applies f to each value and its place.
template <int V, typename F>
__device__ Values<V> each(F&& f) {
  Values<V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.v[i] = f(i);
  return out;
}

// ---- the activation (kernels/hardswish.h, in float32)

inline constexpr float kHardswishGain = static_cast<float>(1.0 / kHardswishRms);

__device__ inline float hardswish(float x) {
  const float r = fminf(fmaxf(x + 3.f, 0.f), 6.f);
  return x * r * (kHardswishGain / 6.f);
}
__device__ inline float hardswish_slope(float x) {
  const float inner = (2.f * x + 3.f) * (1.f / 6.f);
  return (x < -3.f ? 0.f : (x > 3.f ? 1.f : inner)) * kHardswishGain;
}

// ---- sums; every thread of the block (of the warp) takes part

/// Sum over groups of `lanes` neighbouring lanes, a power of two up to 32; all of them get it.
template <typename T>
__device__ T sum_over_lanes(T v, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(0xFFFFFFFFu, v, offset);
  return v;
}

/// Sum over the block (blockDim.x a multiple of 32, one-dimensional); valid in thread 0.
__device__ inline float sum_over_block(float v) {
  __shared__ float of_warps[kThreads / 32];
  v = sum_over_lanes(v, 32);
  __syncthreads();  // an earlier call's values have been read
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned w = 1; w < blockDim.x / 32; ++w) v += of_warps[w];
  return v;
}

/// Sum over threadIdx.y of blocks of up to kThreads threads; valid where threadIdx.y is 0.
template <int V>
__device__ Values<V> sum_over_rows(Values<V> x) {
  __shared__ Values<V> of_threads[kThreads];
  const unsigned self = threadIdx.y * blockDim.x + threadIdx.x;
  __syncthreads();  // an earlier call's values have been read
  of_threads[self] = x;
  unsigned half = 1;
  while (2 * half < blockDim.y) half *= 2;
  for (; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half && threadIdx.y + half < blockDim.y) {
      x = each<V>([&](int i) { return x.v[i] + of_threads[self + half * blockDim.x].v[i]; });
      of_threads[self] = x;
    }
  }
  return x;
}

// ---- launching

/// Queues kernel<<<grid, block>>>(arguments...). Whether it was launched is checked by the caller (Launching::check).
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, CudaStream stream, const Arguments&... arguments) {
#ifdef CIRRUS_EMULATED_DEVICE
  static_cast<void>(stream);
  emulate(grid, block, [&] { kernel(arguments...); });
#else
  kernel<<<grid, block, 0, stream>>>(arguments...);
#endif
}

inline std::int64_t divided_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }
/// As a grid's first dimension; kernels take strides of the grid, so that any size is covered.
inline unsigned blocks(std::int64_t n) { return static_cast<unsigned>(std::clamp<std::int64_t>(n, 1, 1 << 20)); }
/// As a grid's second or third dimension, which end at 65535.
inline unsigned blocks_across(std::int64_t n) { return static_cast<unsigned>(std::clamp<std::int64_t>(n, 1, 65535)); }

/// Calls f(pointer type tag) with float*, __nv_bfloat16* or __half*.
template <typename F>
void by_element(Element type, F&& f) {
  if (type == Element::float32) f(static_cast<float*>(nullptr));
  if (type == Element::bfloat16) f(static_cast<__nv_bfloat16*>(nullptr));
  if (type == Element::float16) f(static_cast<__half*>(nullptr));
}
/// Calls f(type tag, width): 16 bytes at a time if `wide`, else one value.
template <typename F>
void by_element_and_width(Element type, bool wide, F&& f) {
  by_element(type, [&]<typename T>(T* tag) {
    if (wide)
      f(tag, std::integral_constant<int, kWidth<T>>{});
    else
      f(tag, std::integral_constant<int, 1>{});
  });
}

/// A block over rows of `pieces` accesses each: x over a row, y over up to `rows` rows.
inline dim3 block_for_rows(std::int64_t pieces, std::int64_t rows) {
  const std::int64_t x = std::clamp<std::int64_t>(pieces, 1, kThreads);
  return dim3(static_cast<unsigned>(x),
              static_cast<unsigned>(std::clamp<std::int64_t>(kThreads / x, 1, std::max<std::int64_t>(rows, 1))));
}

/// f.at<V>(i) for i = 0, V, 2 V, ... of n values, and f.at<1>(i) for those left over.
template <int V, typename F>
__global__ void __launch_bounds__(kThreads) each_piece(std::int64_t n, F f) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x,
                     step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = first * V; i + V <= n; i += step * V) f.template at<V>(i);
  if constexpr (V > 1) {
    const std::int64_t i = n / V * V + first;
    if (i < n) f.template at<1>(i);
  }
}
template <int V, typename F>
void for_each_piece(std::int64_t n, CudaStream stream, const F& f) {
  if (n > 0) launch(each_piece<V, F>, blocks(divided_up(n, kThreads * V)), kThreads, stream, n, f);
}

// ---- sums over parts of a sample (reduction_parts)

/// out[n, c] = sum over p of parts[n, p, c].
template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_parts(const T* parts, T* out, std::int64_t samples, std::int64_t count, std::int64_t channels) {
  for (std::int64_t n = blockIdx.y; n < samples; n += gridDim.y)
    for (std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; c < channels;
         c += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
      T sum = 0;
      for (std::int64_t p = 0; p < count; ++p) sum += parts[(n * count + p) * channels + c];
      out[n * channels + c] = sum;
    }
}
inline void add_up(const float* parts, float* out, std::int64_t samples, std::int64_t count, std::int64_t channels,
                   CudaStream stream) {
  launch(add_parts<float>, dim3(blocks(divided_up(channels, kThreads)), blocks_across(samples)), kThreads, stream,
         parts, out, samples, count, channels);
}

}  // namespace cirrus::device
