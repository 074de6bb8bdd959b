// Addressed noise on the CPU: Philox and Box-Muller over arrays of blocks, with polynomial log, sine and cosine that
// vectorise.
#include <bit>

#include "base/random.h"
#include "kernels/philox_blocks.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

/// Natural logarithm of u in (0, 1]; relative error 1e-7. Reduction to [sqrt(1/2), sqrt(2)), series in s = (m-1)/(m+1).
inline float log_unit(float u) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(u) - 0x3F3504F3u;
  const float exponent = static_cast<float>(static_cast<std::int32_t>(bits) >> 23);
  const float m = std::bit_cast<float>((bits & 0x007FFFFFu) + 0x3F3504F3u);
  const float s = (m - 1.f) / (m + 1.f), z = s * s;
  const float p = 2.f * s * (1.f + z * (1.f / 3.f + z * (1.f / 5.f + z * (1.f / 7.f + z * (1.f / 9.f)))));
  return exponent * 0.69314718056f + p;
}

/// sin and cos of 2 pi t, t in (0, 1). Octant reduction, Taylor polynomials on [-pi/4, pi/4].
inline void sin_cos_turn(float t, float& sine, float& cosine) {
  const float quarter = static_cast<float>(static_cast<std::int32_t>(t * 4.f + 0.5f));  // 0..4
  const float r = (t - quarter * 0.25f) * 6.2831853072f, z = r * r;
  const float s = r * (1.f - z * (1.f / 6.f - z * (1.f / 120.f - z * (1.f / 5040.f - z * (1.f / 362880.f)))));
  const float c = 1.f - z * (0.5f - z * (1.f / 24.f - z * (1.f / 720.f - z * (1.f / 40320.f))));
  const std::int32_t q = static_cast<std::int32_t>(quarter) & 3;
  const bool swap = (q & 1) != 0;
  const float a = swap ? c : s, b = swap ? s : c;
  sine = (q & 2) != 0 ? -a : a;
  cosine = (q == 1 || q == 2) ? -b : b;
}

/// Normals of blocks first .. first + count of one row: 4 * count values.
CIRRUS_DISPATCH void normals(std::uint32_t first, std::uint32_t row, std::uint32_t c2, std::uint32_t c3,
                             std::uint32_t k0, std::uint32_t k1, std::int64_t count, float* out) {
  std::uint32_t w[4][kBlocks];
  philox_blocks(first, row, c2, c3, k0, k1, count, w);
  for (int pair = 0; pair < 2; ++pair) {
    float* o = out + 2 * pair;
    const std::uint32_t *wa = w[2 * pair], *wb = w[2 * pair + 1];
    for (std::int64_t i = 0; i < count; ++i) {
      // (bits + 1/2) 2^-32 in two float steps that never reach 0; the top end may round to 1, whose logarithm is 0.
      const float u = (static_cast<float>(wa[i] >> 8) + (static_cast<float>(wa[i] & 255u) + 0.5f) * (1.f / 256.f)) *
                      (1.f / 16777216.f);
      const float t = static_cast<float>(wb[i] >> 8) * (1.f / 16777216.f);
      float sine, cosine;
      sin_cos_turn(t, sine, cosine);
      const float radius = std::sqrt(std::max(-2.f * log_unit(u), 0.f));
      o[4 * i] = radius * cosine;
      o[4 * i + 1] = radius * sine;
    }
  }
}

}  // namespace

namespace cpu {

void fill_normal(at::Tensor& out, std::int64_t seed, std::int64_t purpose, at::IntArrayRef items, std::int64_t step,
                 std::int64_t y0, std::int64_t x0) {
  const std::int64_t n = out.size(0), h = out.size(-2), w = out.size(-1);
  float* base = out.data_ptr<float>();
  parallel(n * h, 16, [&](std::int64_t begin, std::int64_t end) {
    float block[4 * kBlocks];
    for (std::int64_t r = begin; r < end; ++r) {
      const Address address(static_cast<std::uint64_t>(seed), static_cast<Purpose>(purpose),
                            static_cast<std::uint64_t>(items[static_cast<std::size_t>(r / h)]),
                            static_cast<std::uint32_t>(step));
      const std::uint32_t row = static_cast<std::uint32_t>(y0 + r % h);
      float* line = base + r * w;
      for (std::int64_t x = x0, stop = x0 + w; x < stop;) {
        const std::int64_t first = x >> 2, count = std::min<std::int64_t>(kBlocks, ((stop + 3) >> 2) - first);
        normals(static_cast<std::uint32_t>(first), row, address.high()[0], address.high()[1], address.key()[0],
                address.key()[1], count, block);
        const std::int64_t upto = std::min(stop, 4 * (first + count));
        std::copy(block + (x - 4 * first), block + (upto - 4 * first), line + (x - x0));
        x = upto;
      }
    }
  });
}

}  // namespace cpu
}  // namespace cirrus::kernels
