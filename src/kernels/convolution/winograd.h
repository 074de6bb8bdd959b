// Winograd's F(4 x 4, 3 x 3) (Lavin and Gray 2015, arXiv 1509.09308) in lanes of 16 channels: a tile of 6 x 6 pixels
// becomes 36 values, as many as the weights become; their products over channels give 4 x 4 results. Arithmetic is
// float32 whatever the activations are stored in. Here: the one-dimensional transforms with their adjoints, lanes in
// memory, and where tiles lie.
#pragma once

#include <array>
#include <cstring>

#include "kernels/rows.h"

namespace cirrus::kernels {

constexpr std::int64_t kOut = 4, kIn = 6, kMatrices = kIn * kIn;  // pixels a side of a tile's result, of a tile
constexpr std::int64_t kLanes = 16, kPanel = 2 * kLanes;          // channels of a lane, of a panel of weights

using Lane [[gnu::vector_size(64)]] = float;
using LaneBits [[gnu::vector_size(64)]] = std::uint32_t;
using LaneHalves [[gnu::vector_size(32)]] = std::uint16_t;

[[gnu::always_inline]] inline void load_lane(const float* p, Lane& v) { std::memcpy(&v, p, sizeof v); }
[[gnu::always_inline]] inline void load_lane(const Bf16* p, Lane& v) {
  LaneHalves h;
  std::memcpy(&h, p, sizeof h);
  v = reinterpret_cast<Lane>(__builtin_convertvector(h, LaneBits) << 16);
}
[[gnu::always_inline]] inline void store_lane(float* p, const Lane& v) { std::memcpy(p, &v, sizeof v); }
[[gnu::always_inline]] inline void store_lane(Bf16* p, const Lane& v) {
  const LaneBits u = reinterpret_cast<LaneBits>(v);
  const LaneHalves h = __builtin_convertvector((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16, LaneHalves);
  std::memcpy(p, &h, sizeof h);
}

// Points 0, +-1, +-2 and infinity.

[[gnu::always_inline]] inline void transform_pixels(const Lane* d, Lane* t) {
  const Lane a = d[4] - 4.f * d[2], b = d[3] - 4.f * d[1], c = d[4] - d[2], e = d[3] - d[1];
  t[0] = 4.f * d[0] - 5.f * d[2] + d[4];
  t[1] = a + b;
  t[2] = a - b;
  t[3] = c + 2.f * e;
  t[4] = c - 2.f * e;
  t[5] = 4.f * d[1] - 5.f * d[3] + d[5];
}
[[gnu::always_inline]] inline void transform_weights(const Lane* g, Lane* t) {
  const Lane outer = g[0] + g[2], weighted = g[0] + 4.f * g[2];
  t[0] = 0.25f * g[0];
  t[1] = (-1.f / 6.f) * (outer + g[1]);
  t[2] = (-1.f / 6.f) * (outer - g[1]);
  t[3] = (1.f / 24.f) * (weighted + 2.f * g[1]);
  t[4] = (1.f / 24.f) * (weighted - 2.f * g[1]);
  t[5] = g[2];
}
[[gnu::always_inline]] inline void transform_result(const Lane* m, Lane* o) {
  const Lane a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
  o[0] = m[0] + a + c;
  o[1] = b + 2.f * d;
  o[2] = a + 4.f * c;
  o[3] = b + 8.f * d + m[5];
}
/// Adjoint of transform_result.
[[gnu::always_inline]] inline void transform_gradient(const Lane* o, Lane* m) {
  const Lane even = o[0] + o[2], odd = o[1] + o[3], even4 = o[0] + 4.f * o[2], odd4 = o[1] + 4.f * o[3];
  m[0] = o[0];
  m[1] = even + odd;
  m[2] = even - odd;
  m[3] = even4 + 2.f * odd4;
  m[4] = even4 - 2.f * odd4;
  m[5] = o[3];
}
/// Adjoint of transform_weights.
[[gnu::always_inline]] inline void gradient_of_weights(const Lane* t, Lane* g) {
  const Lane a = t[1] + t[2], b = t[1] - t[2], c = t[3] + t[4], d = t[3] - t[4];
  g[0] = 0.25f * t[0] - (1.f / 6.f) * a + (1.f / 24.f) * c;
  g[1] = (1.f / 12.f) * d - (1.f / 6.f) * b;
  g[2] = (1.f / 6.f) * (c - a) + t[5];
}

/// On the lambdas below, so that they are compiled for the processor their caller is.
#define CIRRUS_INLINE __attribute__((always_inline))

/// Applies a one-dimensional transform of From values to To along both sides of a square.
template <std::size_t From, std::size_t To, typename Load, typename Transform, typename Store>
[[gnu::always_inline]] inline void transform_square(Load&& load_at, Transform&& transform, Store&& store_at) {
  Lane half[To][From];
#pragma GCC unroll 6
  for (std::size_t j = 0; j < From; ++j) {
    Lane column[From], t[To];
#pragma GCC unroll 6
    for (std::size_t i = 0; i < From; ++i) load_at(i * From + j, column[i]);
    transform(column, t);
#pragma GCC unroll 6
    for (std::size_t i = 0; i < To; ++i) half[i][j] = t[i];
  }
#pragma GCC unroll 6
  for (std::size_t i = 0; i < To; ++i) {
    Lane t[To];
    transform(half[i], t);
#pragma GCC unroll 6
    for (std::size_t j = 0; j < To; ++j) store_at(i * To + j, t[j]);
  }
}

/// Values from matrix to matrix of so many tiles: a lane more than there are, so that the matrices' places of one tile
/// do not fall on the same lines of the cache.
constexpr std::int64_t matrix_stride(std::int64_t tiles, std::int64_t channels) { return tiles * channels + kLanes; }

/// The tiles of a batch of images h x w of results.
struct Tiles {
  std::int64_t h, w, across, in_sample, count;
  Tiles(std::int64_t n, std::int64_t height, std::int64_t width)
      : h(height),
        w(width),
        across((w + kOut - 1) / kOut),
        in_sample(across * ((h + kOut - 1) / kOut)),
        count(n * in_sample) {}
};

/// Where the pixels of a tile are in images of `channels`, each of whose pixels stands for `factor` (1 or 2) by factor
/// others; `outside` stands for those beyond the borders. Side and first: those of the tile (kIn, -1) or of its result
/// (kOut, 0).
template <std::int64_t Side, typename T>
std::array<T*, Side * Side> pixels_of(T* images, T* outside, const Tiles& tiles, std::int64_t tile, std::int64_t first,
                                      std::int64_t channels, std::int64_t factor = 1) {
  std::array<T*, Side * Side> pixels;
  const std::int64_t sample = tile / tiles.in_sample, in_sample = tile % tiles.in_sample, shift = factor - 1,
                     y = in_sample / tiles.across * kOut + first, x = in_sample % tiles.across * kOut + first;
  T* const image = images + sample * (tiles.h >> shift) * (tiles.w >> shift) * channels;
  for (std::int64_t i = 0; i < Side; ++i) {
    T* const line = image + ((y + i) >> shift) * (tiles.w >> shift) * channels;
    const bool inside = y + i >= 0 && y + i < tiles.h;
    for (std::int64_t j = 0; j < Side; ++j)
      pixels[static_cast<std::size_t>(i * Side + j)] =
          inside && x + j >= 0 && x + j < tiles.w ? line + ((x + j) >> shift) * channels : outside;
  }
  return pixels;
}

/// Whether matrix k counts for nothing where pixels are repeated or results summed in pairs that tiles do not cut:
/// point -1 sees nothing but the differences of a pair.
inline bool vanishes_in_pairs(std::int64_t k) { return k / kIn == 2 || k % kIn == 2; }

/// A grain for `parallel` over blocks: those that are fewer than the threads follow each other, and what is parallel in
/// them is divided instead.
inline std::int64_t grain_of(std::int64_t blocks) { return blocks < at::get_num_threads() ? blocks : 1; }
constexpr std::int64_t kTilesOfThread = 8;  ///< a thread transforms at least so many

/// A block of tiles of x [N, C, H, W] (its pixels repeated `factor` times) as matrices: out[k * stride + tile *
/// C + c].
void tiles_in(const at::Tensor& x, std::int64_t factor, const Tiles& tiles, std::int64_t first, std::int64_t count,
              std::int64_t stride, float* out);

/// The 36 matrices of the weights [O, I, 3, 3], each in panels of 32 (the last may have 16) columns: [columns /
/// 32][depth] [32]. Columns are outputs and depth inputs; turned: the other way round, of the weights turned by half.
at::Tensor weights_in(const at::Tensor& weight, bool turned);

/// c [rows, columns] = (or += if `add`) a b over `depth`; a(r, k) = a[r * a_row + k * a_depth], b(k, j) = b[k * b_depth
/// + j]. rows: a multiple of 8, columns: 32 or 16. c has c_row values from row to row.
void multiply(const float* a, std::int64_t a_row, std::int64_t a_depth, const float* b, std::int64_t b_depth, float* c,
              std::int64_t c_row, std::int64_t rows, std::int64_t columns, std::int64_t depth, bool add);

}  // namespace cirrus::kernels
