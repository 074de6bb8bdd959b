// Addressed dropout on the CPU: the mask is made in pieces of 256 values that stay in the cache, and stored nowhere.
#include "kernels/dropout.h"

#include "base/random.h"
#include "kernels/philox_blocks.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

constexpr std::int64_t kPiece = 4 * kBlocks;  // values

#define CIRRUS_LOOPS(T)                                                                                      \
  /* Values 4 first .. 4 first + count of a sample whose counter's upper words are c1, c2, c3. */            \
  CIRRUS_DISPATCH void drop(const T* x, T* y, std::int64_t count, std::uint32_t first, std::uint32_t c1,     \
                            std::uint32_t c2, std::uint32_t c3, std::uint32_t k0, std::uint32_t k1,          \
                            std::uint32_t threshold, float scale) {                                          \
    std::uint32_t words[4][kBlocks], flat[kPiece];                                                           \
    philox_blocks(first, c1, c2, c3, k0, k1, kBlocks, words);                                                \
    for (std::int64_t i = 0; i < kBlocks; ++i) {                                                             \
      flat[4 * i] = words[0][i];                                                                             \
      flat[4 * i + 1] = words[1][i];                                                                         \
      flat[4 * i + 2] = words[2][i];                                                                         \
      flat[4 * i + 3] = words[3][i];                                                                         \
    }                                                                                                        \
    for (std::int64_t i = 0; i < count; ++i) store(y + i, flat[i] >= threshold ? load(x + i) * scale : 0.f); \
  }
CIRRUS_LOOPS(float)
CIRRUS_LOOPS(Bf16)
#undef CIRRUS_LOOPS

}  // namespace

namespace cpu {

at::Tensor dropout(const at::Tensor& x, double p, std::int64_t seed, const at::Tensor& samples, std::int64_t layer) {
  const at::Tensor y = like_channels_last(x);
  const std::int64_t values = x.numel() / std::max<std::int64_t>(1, x.size(0)), pieces = (values + kPiece - 1) / kPiece;
  const std::uint32_t threshold = dropout_threshold(p);
  const float scale = static_cast<float>(1 / (1 - p));
  by_dtype(x, [&]<typename T>(T*) {
    parallel(x.size(0) * pieces, kGrain / kPiece, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) {
        const std::int64_t n = i / pieces, begin = i % pieces * kPiece, at = n * values + begin;
        const Address address(static_cast<std::uint64_t>(seed), Purpose::dropout,
                              static_cast<std::uint64_t>(data<std::int64_t>(samples)[n]),
                              static_cast<std::uint32_t>(layer));
        const auto first = static_cast<std::uint64_t>(begin / 4);  // of a piece: its low word does not overflow inside
        drop(data<T>(x) + at, data<T>(y) + at, std::min(kPiece, values - begin), static_cast<std::uint32_t>(first),
             static_cast<std::uint32_t>(first >> 32), address.high()[0], address.high()[1], address.key()[0],
             address.key()[1], threshold, scale);
      }
    });
  });
  return y;
}

}  // namespace cpu
}  // namespace cirrus::kernels
