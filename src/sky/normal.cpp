// Philox words to normal numbers, a chunk at a time, in loops the compiler vectorises: the polynomials below take the
// place of log, sin and cos of the C library, which are called one number at a time.
#include "sky/normal.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sky/clones.h"

namespace cirrus::sky {
namespace {

constexpr int kBlocks = 128;         // Philox blocks a chunk
constexpr int kChunk = 4 * kBlocks;  // normal numbers a chunk
constexpr float kUnit = 1.0f / (1 << 24);

/// ln x for x in (0, 1] to 1e-7 relative: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and Cephes' polynomial for ln m
/// (logf.c).
[[gnu::always_inline]] inline float log_of(float x) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t shifted = bits - 0x3F3504F3;  // the bits of sqrt(1/2)
  const float e = static_cast<float>(shifted >> 23);
  const float m = std::bit_cast<float>((shifted & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float square = m * m;
  return (m - 0.5f * square + m * square * p) + 0.693147180559945f * e;
}

/// Two normals from two words; the angle is 2 pi t, t in [-1/2, 1/2), by the half angle and Taylor's series (error
/// 6e-8).
[[gnu::always_inline]] inline void normals_of(std::uint32_t a, std::uint32_t b, float& first, float& second) {
  const float u = (static_cast<float>(static_cast<std::int32_t>(a >> 8)) + 0.5f) * kUnit;
  const float t = static_cast<float>(static_cast<std::int32_t>(b >> 8)) * kUnit - 0.5f;
  const float radius = std::sqrt(-2.0f * log_of(u));
  const float h = 3.14159265358979f * t, q = h * h;
  const float s =
      h * (1 + q * (-1.0f / 6 + q * (1.0f / 120 + q * (-1.0f / 5040 + q * (1.0f / 362880 - q * (1.0f / 39916800))))));
  const float c =
      1 + q * (-0.5f + q * (1.0f / 24 +
                            q * (-1.0f / 720 + q * (1.0f / 40320 - q * (1.0f / 3628800 - q * (1.0f / 479001600))))));
  first = radius * (1 - 2 * s * s);
  second = radius * 2 * s * c;
}

[[CIRRUS_CLONES]] void chunk(const Address& given, std::uint64_t index, float* __restrict out) {
  const Address address = given;  // a copy, so that the compiler knows that `out` does not change it
  std::uint32_t words[4][kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    const auto w = address.block(index * kBlocks + static_cast<std::uint64_t>(i));
    for (int j = 0; j < 4; ++j) words[j][i] = w[j];
  }
  for (int i = 0; i < kBlocks; ++i) normals_of(words[0][i], words[1][i], out[i], out[kBlocks + i]);
  for (int i = 0; i < kBlocks; ++i) normals_of(words[2][i], words[3][i], out[2 * kBlocks + i], out[3 * kBlocks + i]);
}

}  // namespace

void fill_normal(const Address& address, std::span<float> out) {
  const std::size_t whole = out.size() / kChunk;
  for (std::size_t c = 0; c < whole; ++c) chunk(address, c, out.data() + c * kChunk);
  if (const std::size_t rest = out.size() - whole * kChunk; rest > 0) {
    float last[kChunk];
    chunk(address, whole, last);
    std::copy(last, last + rest, out.data() + whole * kChunk);
  }
}

}  // namespace cirrus::sky
