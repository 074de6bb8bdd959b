// Philox4x32-10 (base/random.h) over a row of counters at once, in a loop that the compiler vectorises.
#pragma once

#include <cstdint>

namespace cirrus::kernels {

inline constexpr std::int64_t kBlocks = 64;  ///< Philox blocks (of four words) made at once

/// words[j][i] = word j of the block with counter (first + i, second, third, fourth), i < count <= kBlocks; first + i
/// does not overflow.
[[gnu::always_inline]] inline void philox_blocks(std::uint32_t first, std::uint32_t second, std::uint32_t third,
                                                 std::uint32_t fourth, std::uint32_t k0, std::uint32_t k1,
                                                 std::int64_t count, std::uint32_t (&words)[4][kBlocks]) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t a = first + static_cast<std::uint32_t>(i), b = second, c = third, d = fourth, x = k0, y = k1;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * a, p1 = std::uint64_t{0xCD9E8D57} * c;
      a = static_cast<std::uint32_t>(p1 >> 32) ^ b ^ x;
      b = static_cast<std::uint32_t>(p1);
      c = static_cast<std::uint32_t>(p0 >> 32) ^ d ^ y;
      d = static_cast<std::uint32_t>(p0);
      x += 0x9E3779B9u;
      y += 0xBB67AE85u;
    }
    words[0][i] = a;
    words[1][i] = b;
    words[2][i] = c;
    words[3][i] = d;
  }
}

}  // namespace cirrus::kernels
