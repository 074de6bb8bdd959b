// Matrix products of Winograd's convolution: small matrices that lie in memory as the products want them, so that
// nothing is copied first. Each result is the sum over `depth` in order, whatever the processor.
#include "kernels/convolution/winograd.h"

namespace cirrus::kernels {
namespace {

using HalfLane [[gnu::vector_size(32)]] = float;

/// Rows x Vectors vectors of results, held in registers.
template <typename Vector, std::size_t Rows, std::size_t Vectors>
[[gnu::always_inline]] inline void block(const float* a, std::int64_t a_row, std::int64_t a_depth, const float* b,
                                         std::int64_t b_depth, float* c, std::int64_t c_row, std::int64_t depth,
                                         bool add) {
  constexpr std::int64_t width = sizeof(Vector) / sizeof(float);
  Vector sum[Rows][Vectors];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) sum[r][v] = Vector{};
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector right[Vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v)
      std::memcpy(right + v, b + k * b_depth + static_cast<std::int64_t>(v) * width, sizeof(Vector));
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r) {
      const float left = a[static_cast<std::int64_t>(r) * a_row + k * a_depth];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Vectors; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) {
      float* at = c + static_cast<std::int64_t>(r) * c_row + static_cast<std::int64_t>(v) * width;
      if (add) {
        Vector before;
        std::memcpy(&before, at, sizeof before);
        sum[r][v] += before;
      }
      std::memcpy(at, &sum[r][v], sizeof(Vector));
    }
}

#define CIRRUS_ROWS(Vector, Rows, Vectors)                                                                          \
  for (std::int64_t r = 0; r < rows; r += Rows)                                                                     \
    for (std::int64_t j = 0; j < columns; j += Vectors * static_cast<std::int64_t>(sizeof(Vector) / sizeof(float))) \
  block<Vector, Rows, Vectors>(a + r * a_row, a_row, a_depth, b + j, b_depth, c + r * c_row + j, c_row, depth, add)

#define CIRRUS_PARAMETERS                                                                                   \
  const float *a, std::int64_t a_row, std::int64_t a_depth, const float *b, std::int64_t b_depth, float *c, \
      std::int64_t c_row, std::int64_t rows, std::int64_t columns, std::int64_t depth, bool add

/// 16 registers of 8 values hold 4 rows of half a panel.
CIRRUS_DISPATCH void multiply_narrow(CIRRUS_PARAMETERS) { CIRRUS_ROWS(HalfLane, 4, 2); }

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
/// 32 registers of 16 values hold 8 rows of a panel.
[[gnu::target("arch=x86-64-v4")]] void multiply_wide(CIRRUS_PARAMETERS) {
  if (columns == kPanel) {
    CIRRUS_ROWS(Lane, 8, 2);
  } else {
    CIRRUS_ROWS(Lane, 8, 1);
  }
}
const bool kWide = __builtin_cpu_supports("x86-64-v4");
#else
constexpr auto* multiply_wide = multiply_narrow;
constexpr bool kWide = false;
#endif

}  // namespace

void multiply(CIRRUS_PARAMETERS) {
  (kWide ? multiply_wide : multiply_narrow)(a, a_row, a_depth, b, b_depth, c, c_row, rows, columns, depth, add);
}

}  // namespace cirrus::kernels
