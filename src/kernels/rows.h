// What the CPU kernels of this folder share: rows of channels-last activations, bf16 <-> fp32, and compilation of one
// source for AVX-512, AVX2 and the baseline with dispatch at run time (GCC's target_clones).
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <bit>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define CIRRUS_DISPATCH __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CIRRUS_DISPATCH
#endif

namespace cirrus::kernels {

/// bfloat16 as storage: plain bits, so that loops over it vectorise.
struct Bf16 {
  std::uint16_t bits;
};

inline float load(const float* p) { return *p; }
inline float load(const Bf16* p) { return std::bit_cast<float>(static_cast<std::uint32_t>(p->bits) << 16); }
inline void store(float* p, float v) { *p = v; }
inline void store(Bf16* p, float v) {  // round to nearest even; activations are finite
  const std::uint32_t u = std::bit_cast<std::uint32_t>(v);
  p->bits = static_cast<std::uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

/// Rows of a channels-last activation [N, C, H, W]: N*H*W rows of C contiguous values.
struct Rows {
  std::int64_t count, channels, per_sample;
};
inline Rows rows_of(const at::Tensor& x) {
  return {x.size(0) * x.size(2) * x.size(3), x.size(1), x.size(2) * x.size(3)};
}

inline at::Tensor channels_last(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }
inline at::Tensor like_channels_last(const at::Tensor& x) {
  return at::empty_like(x, x.options(), at::MemoryFormat::ChannelsLast);
}

/// Calls f(pointer type tag) with float* or Bf16*, by the tensor's dtype.
template <typename F>
void by_dtype(const at::Tensor& x, F&& f) {
  if (x.scalar_type() == at::kFloat) {
    f(static_cast<float*>(nullptr));
  } else {
    TORCH_CHECK(x.scalar_type() == at::kBFloat16, "kernel wants float32 or bfloat16, got ", x.scalar_type());
    f(static_cast<Bf16*>(nullptr));
  }
}
template <typename T>
T* data(const at::Tensor& x) {
  return static_cast<T*>(x.data_ptr());
}

constexpr std::int64_t kGrain = 16384;  ///< values of activations a thread takes at least

/// Splits [0, n) over threads in pieces of at least `grain`.
template <typename F>
void parallel(std::int64_t n, std::int64_t grain, F&& f) {
  at::parallel_for(0, n, std::max<std::int64_t>(grain, 1), std::forward<F>(f));
}

}  // namespace cirrus::kernels
