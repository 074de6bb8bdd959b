// Winograd's convolution on the CPU: tiles are transformed into 36 matrices of tiles by channels, multiplied by those
// of the weights, and transformed back. Tiles are worked through in blocks that stay in the second cache; a block's
// length depends on the channels alone, so that results do not depend on the threads.
#include "kernels/convolution/winograd.h"

namespace cirrus::kernels {
namespace {

constexpr std::int64_t kBlockValues = 1 << 16;  // of a block's tiles before and after multiplication
constexpr std::int64_t kBlockRows = 8;          // a block's length is a multiple

#define CIRRUS_LOOPS(T)                                                                                                \
  /* pixels: the tile's 36, each of `channels` values. Matrix k of the result begins at out + k * stride. */           \
  CIRRUS_DISPATCH void tile_in(const std::array<const T*, kMatrices>& pixels, float* out, std::int64_t stride,         \
                               std::int64_t channels) {                                                                \
    for (std::int64_t c = 0; c < channels; c += kLanes)                                                                \
      transform_square<kIn, kIn>(                                                                                      \
          [&](std::size_t k, Lane& v) CIRRUS_INLINE { load_lane(pixels[k] + c, v); }, transform_pixels,                \
          [&](std::size_t k, const Lane& v)                                                                            \
              CIRRUS_INLINE { store_lane(out + static_cast<std::int64_t>(k) * stride + c, v); });                      \
  }                                                                                                                    \
  /* pixels: where the tile's 16 results go, scale * result + bias, and other_scale times those of others if there. */ \
  CIRRUS_DISPATCH void tile_out(                                                                                       \
      const float* in, std::int64_t stride, const float* bias, float scale, const std::array<T*, kOut * kOut>& pixels, \
      const std::array<const T*, kOut * kOut>* others, float other_scale, std::int64_t channels) {                     \
    for (std::int64_t c = 0; c < channels; c += kLanes) {                                                              \
      Lane offset;                                                                                                     \
      load_lane(bias + c, offset);                                                                                     \
      const auto load_at = [&](std::size_t k, Lane& v)                                                                 \
                               CIRRUS_INLINE { load_lane(in + static_cast<std::int64_t>(k) * stride + c, v); };        \
      if (others == nullptr)                                                                                           \
        transform_square<kIn, kOut>(load_at, transform_result, [&](std::size_t k, const Lane& v) CIRRUS_INLINE {       \
          store_lane(pixels[k] + c, v * scale + offset);                                                               \
        });                                                                                                            \
      else                                                                                                             \
        transform_square<kIn, kOut>(load_at, transform_result, [&](std::size_t k, const Lane& v) CIRRUS_INLINE {       \
          Lane other;                                                                                                  \
          load_lane((*others)[k] + c, other);                                                                          \
          store_lane(pixels[k] + c, v * scale + offset + other * other_scale);                                         \
        });                                                                                                            \
    }                                                                                                                  \
  }                                                                                                                    \
  /* Each pair of pairs of results is summed: pixels holds the four places of the sums. */                             \
  CIRRUS_DISPATCH void tile_out_summed(const float* in, std::int64_t stride, float scale,                              \
                                       const std::array<T*, 4>& pixels, std::int64_t channels) {                       \
    for (std::int64_t c = 0; c < channels; c += kLanes) {                                                              \
      Lane result[kOut * kOut];                                                                                        \
      transform_square<kIn, kOut>(                                                                                     \
          [&](std::size_t k, Lane& v) CIRRUS_INLINE { load_lane(in + static_cast<std::int64_t>(k) * stride + c, v); }, \
          transform_result, [&](std::size_t k, const Lane& v) CIRRUS_INLINE { result[k] = v; });                       \
      for (std::size_t k = 0; k < 4; ++k) {                                                                            \
        const Lane* r = result + k / 2 * 8 + k % 2 * 2;                                                                \
        store_lane(pixels[k] + c, ((r[0] + r[1]) + (r[4] + r[5])) * scale);                                            \
      }                                                                                                                \
    }                                                                                                                  \
  }

CIRRUS_LOOPS(float)
CIRRUS_LOOPS(Bf16)
#undef CIRRUS_LOOPS

}  // namespace

void tiles_in(const at::Tensor& x, std::int64_t factor, const Tiles& tiles, std::int64_t first, std::int64_t count,
              std::int64_t stride, float* out) {
  const std::int64_t channels = x.size(1);
  by_dtype(x, [&]<typename T>(T*) {
    const std::vector<T> zeros(static_cast<std::size_t>(channels));
    for (std::int64_t t = 0; t < count; ++t)
      tile_in(pixels_of<kIn, const T>(data<T>(x), zeros.data(), tiles, first + t, -1, channels, factor),
              out + t * channels, stride, channels);
  });
}

namespace cpu {

at::Tensor winograd(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& matrices,
                    bool transposed, std::int64_t factor, const std::optional<at::Tensor>& bias,
                    const std::optional<at::Tensor>& other, double scale, double other_scale) {
  const at::Tensor factors = matrices ? *matrices : weights_in(weight, transposed);
  const std::int64_t from = weight.size(transposed ? 0 : 1), to = weight.size(transposed ? 1 : 0), n = x.size(0);
  // Pixels of x are repeated, or those of the result summed.
  const std::int64_t repeated = transposed ? 1 : factor, summed = transposed ? factor : 1;
  const Tiles tiles(n, x.size(2) * repeated, x.size(3) * repeated);
  const std::int64_t length =
      std::max<std::int64_t>(2 * kBlockRows, kBlockValues / (kMatrices * (from + to)) / kBlockRows * kBlockRows);
  const at::Tensor y =
      at::empty({n, to, tiles.h / summed, tiles.w / summed}, x.options(), at::MemoryFormat::ChannelsLast);
  const at::Tensor offset = bias ? bias->to(at::kFloat).contiguous() : at::zeros({to}, at::kFloat);
  const std::int64_t offset_step = offset.dim() == 2 ? to : 0;  // from sample to sample
  const std::int64_t blocks = (tiles.count + length - 1) / length;
  parallel(blocks, grain_of(blocks), [&](std::int64_t block, std::int64_t end) {
    const std::int64_t step_before = matrix_stride(length, from), step_after = matrix_stride(length, to);
    // Zeros: rows that fill a block up are multiplied too, and matrices that vanish in pairs stay what they are.
    std::vector<float> before(static_cast<std::size_t>(kMatrices * step_before)),
        after(static_cast<std::size_t>(kMatrices * step_after));
    for (; block < end; ++block) {
      const std::int64_t first = block * length, count = std::min(length, tiles.count - first);
      parallel(count, kTilesOfThread, [&](std::int64_t t, std::int64_t last) {
        tiles_in(x, repeated, tiles, first + t, last - t, step_before, before.data() + t * from);
      });
      parallel(kMatrices, 1, [&](std::int64_t k, std::int64_t last) {
        for (; k < last; ++k) {
          if (factor > 1 && vanishes_in_pairs(k)) continue;
          for (std::int64_t p = 0; p < to; p += kPanel) {
            const std::int64_t width = std::min(kPanel, to - p);
            multiply(before.data() + k * step_before, from, 1, data<float>(factors) + (k * to + p) * from, width,
                     after.data() + k * step_after + p, to, (count + kBlockRows - 1) / kBlockRows * kBlockRows, width,
                     from, false);
          }
        }
      });
      parallel(count, kTilesOfThread, [&](std::int64_t t, std::int64_t last) {
        by_dtype(x, [&]<typename T>(T*) {
          std::vector<T> unused(static_cast<std::size_t>(to));
          const auto k = static_cast<float>(scale), other_k = static_cast<float>(other_scale);
          for (; t < last; ++t) {
            const float* in = after.data() + t * to;
            const auto pixels = pixels_of<kOut, T>(data<T>(y), unused.data(), tiles, first + t, 0, to, summed);
            if (summed > 1) {
              tile_out_summed(in, step_after, k, {pixels[0], pixels[2], pixels[8], pixels[10]}, to);
              continue;
            }
            const float* const here = data<float>(offset) + (first + t) / tiles.in_sample * offset_step;
            if (other) {
              const auto others = pixels_of<kOut, const T>(data<T>(*other), unused.data(), tiles, first + t, 0, to);
              tile_out(in, step_after, here, k, pixels, &others, other_k, to);
            } else {
              tile_out(in, step_after, here, k, pixels, nullptr, 0.f, to);
            }
          }
        });
      });
    }
  });
  return y;
}

}  // namespace cpu
}  // namespace cirrus::kernels
