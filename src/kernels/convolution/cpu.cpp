// Winograd's convolution on the CPU: tiles of 6 x 6 pixels, each giving 4 x 4 of the result, are transformed into 36
// matrices of tiles by channels, multiplied by those of the weights, and transformed back. Tiles are worked through in
// blocks that stay in the second cache; a block's length depends on the channels alone, so that results do not depend
// on the threads.
#include <array>
#include <cstring>

#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

constexpr std::int64_t kOut = 4, kIn = 6, kMatrices = kIn * kIn;  // pixels a side of a tile's result, of a tile
constexpr std::int64_t kBlockValues = 1 << 18;                    // of a block's tiles before and after multiplication

using Lane [[gnu::vector_size(64)]] = float;  // 16 channels
constexpr std::int64_t kLanes = 16;

// The one-dimensional transforms of Lavin and Gray's F(4, 3), for points 0, +-1, +-2 and infinity.

[[gnu::always_inline]] inline void transform_pixels(const Lane* d, Lane* t) {
  const Lane a = d[4] - 4.f * d[2], b = d[3] - 4.f * d[1], c = d[4] - d[2], e = 2.f * (d[3] - d[1]);
  t[0] = 4.f * d[0] - 5.f * d[2] + d[4];
  t[1] = a + b;
  t[2] = a - b;
  t[3] = c + e;
  t[4] = c - e;
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

/// pixels: the tile's 36, each of `channels` values. Matrix k of the result begins at out + k * stride.
CIRRUS_DISPATCH void tile_in(const std::array<const float*, kMatrices>& pixels, float* out, std::int64_t stride,
                             std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    Lane half[kIn][kIn];
#pragma GCC unroll 6
    for (std::int64_t j = 0; j < kIn; ++j) {
      Lane column[kIn], t[kIn];
#pragma GCC unroll 6
      for (std::int64_t i = 0; i < kIn; ++i)
        std::memcpy(column + i, pixels[static_cast<std::size_t>(i * kIn + j)] + c, sizeof(Lane));
      transform_pixels(column, t);
#pragma GCC unroll 6
      for (std::int64_t i = 0; i < kIn; ++i) half[i][j] = t[i];
    }
#pragma GCC unroll 6
    for (std::int64_t i = 0; i < kIn; ++i) {
      Lane t[kIn];
      transform_pixels(half[i], t);
#pragma GCC unroll 6
      for (std::int64_t j = 0; j < kIn; ++j) std::memcpy(out + (i * kIn + j) * stride + c, t + j, sizeof(Lane));
    }
  }
}

/// pixels: where the tile's 16 results go.
CIRRUS_DISPATCH void tile_out(const float* in, std::int64_t stride, const std::array<float*, kOut * kOut>& pixels,
                              std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    Lane half[kOut][kIn];
#pragma GCC unroll 6
    for (std::int64_t j = 0; j < kIn; ++j) {
      Lane column[kIn], t[kOut];
#pragma GCC unroll 6
      for (std::int64_t i = 0; i < kIn; ++i) std::memcpy(column + i, in + (i * kIn + j) * stride + c, sizeof(Lane));
      transform_result(column, t);
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < kOut; ++i) half[i][j] = t[i];
    }
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kOut; ++i) {
      Lane t[kOut];
      transform_result(half[i], t);
#pragma GCC unroll 4
      for (std::int64_t j = 0; j < kOut; ++j)
        std::memcpy(pixels[static_cast<std::size_t>(i * kOut + j)] + c, t + j, sizeof(Lane));
    }
  }
}

/// One output channel's weights, 9 rows of `channels` values, the last first if turned.
CIRRUS_DISPATCH void weights_in(const float* w, float* out, std::int64_t stride, std::int64_t channels, bool turned) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    Lane half[kIn][3];
    for (std::int64_t j = 0; j < 3; ++j) {
      Lane column[3], t[kIn];
      for (std::int64_t i = 0; i < 3; ++i)
        std::memcpy(column + i, w + (turned ? 8 - (i * 3 + j) : i * 3 + j) * channels + c, sizeof(Lane));
      transform_weights(column, t);
      for (std::int64_t i = 0; i < kIn; ++i) half[i][j] = t[i];
    }
    for (std::int64_t i = 0; i < kIn; ++i) {
      Lane t[kIn];
      transform_weights(half[i], t);
      for (std::int64_t j = 0; j < kIn; ++j) std::memcpy(out + (i * kIn + j) * stride + c, t + j, sizeof(Lane));
    }
  }
}

/// Where tile `index` of a batch has its first result.
struct Tile {
  std::int64_t sample, y, x;
  Tile(std::int64_t index, std::int64_t in_sample, std::int64_t across)
      : sample(index / in_sample), y(index % in_sample / across * kOut), x(index % in_sample % across * kOut) {}
};

at::Tensor matrices(float* memory, std::int64_t tiles, std::int64_t channels) {
  return at::from_blob(memory, {kMatrices, tiles, channels}, at::kFloat);
}

}  // namespace

namespace cpu {

at::Tensor winograd(const at::Tensor& x, const at::Tensor& weight, bool transposed) {
  const std::int64_t outputs = weight.size(0), inputs = weight.size(1);
  const at::Tensor rows = at::empty({kMatrices, outputs, inputs}, x.options());
  parallel(outputs, kGrain / (kMatrices * inputs), [&](std::int64_t o, std::int64_t end) {
    for (; o < end; ++o)
      weights_in(data<float>(weight) + o * 9 * inputs, data<float>(rows) + o * inputs, outputs * inputs, inputs,
                 transposed);
  });
  const at::Tensor factors = transposed ? rows : rows.transpose(1, 2);

  const std::int64_t n = x.size(0), h = x.size(2), w = x.size(3), from = factors.size(1), to = factors.size(2);
  const std::int64_t across = (w + kOut - 1) / kOut, in_sample = across * ((h + kOut - 1) / kOut),
                     tiles = n * in_sample;
  const std::int64_t length = std::max<std::int64_t>(16, kBlockValues / (kMatrices * (from + to)) / 8 * 8);
  const at::Tensor y = at::empty({n, to, h, w}, x.options(), at::MemoryFormat::ChannelsLast);
  parallel((tiles + length - 1) / length, 1, [&](std::int64_t block, std::int64_t end) {
    std::vector<float> before(static_cast<std::size_t>(kMatrices * length * from)),
        after(static_cast<std::size_t>(kMatrices * length * to)), zeros(static_cast<std::size_t>(from)),
        unused(static_cast<std::size_t>(to));
    for (; block < end; ++block) {
      const std::int64_t first = block * length, count = std::min(length, tiles - first);
      for (std::int64_t t = 0; t < count; ++t) {
        const Tile tile(first + t, in_sample, across);
        const float* source = data<float>(x) + tile.sample * h * w * from;
        std::array<const float*, kMatrices> pixels;
        for (std::int64_t k = 0; k < kMatrices; ++k) {
          const std::int64_t py = tile.y - 1 + k / kIn, px = tile.x - 1 + k % kIn;
          pixels[static_cast<std::size_t>(k)] =
              py < 0 || py >= h || px < 0 || px >= w ? zeros.data() : source + (py * w + px) * from;
        }
        tile_in(pixels, before.data() + t * from, count * from, from);
      }
      at::Tensor product = matrices(after.data(), count, to);
      at::bmm_out(product, matrices(before.data(), count, from), factors);
      for (std::int64_t t = 0; t < count; ++t) {
        const Tile tile(first + t, in_sample, across);
        float* target = data<float>(y) + tile.sample * h * w * to;
        std::array<float*, kOut * kOut> pixels;
        for (std::int64_t k = 0; k < kOut * kOut; ++k) {
          const std::int64_t py = tile.y + k / kOut, px = tile.x + k % kOut;
          pixels[static_cast<std::size_t>(k)] = py < h && px < w ? target + (py * w + px) * to : unused.data();
        }
        tile_out(after.data() + t * to, count * to, pixels, to);
      }
    }
  });
  return y;
}

}  // namespace cpu
}  // namespace cirrus::kernels
