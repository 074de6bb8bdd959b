// The weights of Winograd's convolution on the CPU: their matrices, and their gradient by the same algorithm: the
// products of transformed pixels and transformed gradients are summed over tiles, and that sum is transformed once.
#include "kernels/convolution/winograd.h"

namespace cirrus::kernels {
namespace {

constexpr std::int64_t kBlockValues = 1 << 19;  // of a block's tiles of pixels and gradients
constexpr std::int64_t kTilesOfSum = 256;       // a sum of its own for so many tiles, added up in their order at last
constexpr std::int64_t kMostSums = 32;

/// Rows of 16 lanes become columns: bit by bit of their numbers, where the compiler shuffles lanes.
[[gnu::always_inline]] inline void transpose(Lane* a) {
#ifdef __clang__
  for (int r = 0; r < kLanes; ++r)
    for (int l = 0; l < r; ++l) {
      const float before = a[r][l];
      a[r][l] = a[l][r];
      a[l][r] = before;
    }
#else
#pragma GCC unroll 4
  for (int s = kLanes / 2; s > 0; s /= 2) {
    LaneBits low, high;  // lanes of the first and (from 16) of the second row of a pair
    for (int l = 0; l < kLanes; ++l) {
      low[l] = static_cast<std::uint32_t>((l & s) != 0 ? kLanes + (l ^ s) : l);
      high[l] = static_cast<std::uint32_t>((l & s) != 0 ? kLanes + l : l ^ s);
    }
    for (int r = 0; r < kLanes; ++r)
      if ((r & s) == 0) {
        const Lane first = a[r], second = a[r | s];
        a[r] = __builtin_shuffle(first, second, low);
        a[r | s] = __builtin_shuffle(first, second, high);
      }
  }
#endif
}

#define CIRRUS_LOOPS(T)                                                                                                \
  /* 16 outputs (rows of 9 * inputs values) by 16 inputs. The value of depth d and a column in matrix k goes to out +  \
     k * stride + d * width + column. Columns are outputs, or if turned inputs. */                                     \
  CIRRUS_DISPATCH void square_in(const T* w, std::int64_t inputs, float* out, std::int64_t stride, std::int64_t width, \
                                 bool turned) {                                                                        \
    Lane taps[9][kLanes];                                                                                              \
    for (std::int64_t tap = 0; tap < 9; ++tap) {                                                                       \
      for (std::int64_t o = 0; o < kLanes; ++o)                                                                        \
        load_lane(w + (o * 9 + (turned ? 8 - tap : tap)) * inputs, taps[tap][o]);                                      \
      if (!turned) transpose(taps[tap]);                                                                               \
    }                                                                                                                  \
    for (std::int64_t d = 0; d < kLanes; ++d)                                                                          \
      transform_square<3, kIn>([&](std::size_t k, Lane& v) CIRRUS_INLINE { v = taps[k][d]; }, transform_weights,       \
                               [&](std::size_t k, const Lane& v) CIRRUS_INLINE {                                       \
                                 store_lane(out + static_cast<std::int64_t>(k) * stride + d * width, v);               \
                               });                                                                                     \
  }                                                                                                                    \
  /* pixels: the 16 gradients of a tile's results. */                                                                  \
  CIRRUS_DISPATCH void gradient_in(const std::array<const T*, kOut * kOut>& pixels, float* out, std::int64_t stride,   \
                                   std::int64_t channels) {                                                            \
    for (std::int64_t c = 0; c < channels; c += kLanes)                                                                \
      transform_square<kOut, kIn>(                                                                                     \
          [&](std::size_t k, Lane& v) CIRRUS_INLINE { load_lane(pixels[k] + c, v); }, transform_gradient,              \
          [&](std::size_t k, const Lane& v)                                                                            \
              CIRRUS_INLINE { store_lane(out + static_cast<std::int64_t>(k) * stride + c, v); });                      \
  }                                                                                                                    \
  /* One output's weights from `count` sums of matrices, each after `stride` more values, sums after `apart`. */       \
  CIRRUS_DISPATCH void gradient_out(const float* sums, std::int64_t count, std::int64_t apart, std::int64_t stride,    \
                                    float scale, T* w, std::int64_t inputs) {                                          \
    for (std::int64_t c = 0; c < inputs; c += kLanes)                                                                  \
      transform_square<kIn, 3>(                                                                                        \
          [&](std::size_t k, Lane& v) CIRRUS_INLINE {                                                                  \
            const float* at = sums + static_cast<std::int64_t>(k) * stride + c;                                        \
            load_lane(at, v);                                                                                          \
            for (std::int64_t i = 1; i < count; ++i) {                                                                 \
              Lane next;                                                                                               \
              load_lane(at + i * apart, next);                                                                         \
              v += next;                                                                                               \
            }                                                                                                          \
          },                                                                                                           \
          gradient_of_weights,                                                                                         \
          [&](std::size_t k, const Lane& v)                                                                            \
              CIRRUS_INLINE { store_lane(w + static_cast<std::int64_t>(k) * inputs + c, v * scale); });                \
  }

CIRRUS_LOOPS(float)
CIRRUS_LOOPS(Bf16)
#undef CIRRUS_LOOPS

}  // namespace

at::Tensor weights_in(const at::Tensor& weight, bool turned) {
  const std::int64_t outputs = weight.size(0), inputs = weight.size(1), columns = turned ? inputs : outputs,
                     depth = turned ? outputs : inputs;
  const at::Tensor factors = at::empty({kMatrices, columns * depth}, at::kFloat);
  by_dtype(weight, [&]<typename T>(T*) {
    parallel(outputs / kLanes, kGrain / (kMatrices * kLanes * inputs), [&](std::int64_t s, std::int64_t end) {
      for (; s < end; ++s)
        for (std::int64_t i = 0; i < inputs; i += kLanes) {
          const std::int64_t column = turned ? i : s * kLanes, d = turned ? s * kLanes : i,
                             panel = column / kPanel * kPanel, width = std::min(kPanel, columns - panel);
          square_in(data<T>(weight) + s * kLanes * 9 * inputs + i, inputs,
                    data<float>(factors) + panel * depth + d * width + column - panel, columns * depth, width, turned);
        }
    });
  });
  return factors;
}

namespace cpu {

at::Tensor winograd_matrices(const at::Tensor& weight) { return weights_in(weight, false); }

at::Tensor winograd_weights(const at::Tensor& x, const at::Tensor& grad, std::int64_t factor, double scale) {
  const std::int64_t inputs = x.size(1), outputs = grad.size(1), values = kMatrices * outputs * inputs;
  const Tiles tiles(grad.size(0), grad.size(2), grad.size(3));
  const std::int64_t length =
      std::clamp<std::int64_t>(kBlockValues / (kMatrices * (inputs + outputs)), 16, kTilesOfSum);
  const std::int64_t per_sum = std::max(kTilesOfSum, (tiles.count + kMostSums - 1) / kMostSums),
                     count = (tiles.count + per_sum - 1) / per_sum;
  const at::Tensor sums = factor > 1 ? at::zeros({count, values}, at::kFloat) : at::empty({count, values}, at::kFloat);
  parallel(count, grain_of(count), [&](std::int64_t s, std::int64_t end) {
    const std::int64_t step_pixels = matrix_stride(length, inputs), step_gradients = matrix_stride(length, outputs);
    std::vector<float> pixels(static_cast<std::size_t>(kMatrices * step_pixels)),
        gradients(static_cast<std::size_t>(kMatrices * step_gradients));
    for (; s < end; ++s)
      for (std::int64_t first = s * per_sum, stop = std::min(tiles.count, first + per_sum); first < stop;
           first += length) {
        const std::int64_t now = std::min(length, stop - first);
        parallel(now, kTilesOfThread, [&](std::int64_t t, std::int64_t last) {
          tiles_in(x, factor, tiles, first + t, last - t, step_pixels, pixels.data() + t * inputs);
          by_dtype(grad, [&]<typename T>(T*) {
            const std::vector<T> zeros(static_cast<std::size_t>(outputs));
            for (; t < last; ++t)
              gradient_in(pixels_of<kOut, const T>(data<T>(grad), zeros.data(), tiles, first + t, 0, outputs),
                          gradients.data() + t * outputs, step_gradients, outputs);
          });
        });
        parallel(kMatrices, 1, [&](std::int64_t k, std::int64_t last) {
          for (; k < last; ++k) {
            if (factor > 1 && vanishes_in_pairs(k)) continue;
            for (std::int64_t p = 0; p < inputs; p += kPanel)
              multiply(gradients.data() + k * step_gradients, 1, outputs, pixels.data() + k * step_pixels + p, inputs,
                       data<float>(sums) + s * values + k * outputs * inputs + p, inputs, outputs,
                       std::min(kPanel, inputs - p), now, first > s * per_sum);
          }
        });
      }
  });
  const at::Tensor dw = at::empty({outputs, inputs, 3, 3}, x.options(), at::MemoryFormat::ChannelsLast);
  by_dtype(dw, [&]<typename T>(T*) {
    parallel(outputs, kGrain / (kMatrices * inputs), [&](std::int64_t o, std::int64_t end) {
      for (; o < end; ++o)
        gradient_out(data<float>(sums) + o * inputs, count, values, outputs * inputs, static_cast<float>(scale),
                     data<T>(dw) + o * 9 * inputs, inputs);
    });
  });
  return dw;
}

}  // namespace cpu
}  // namespace cirrus::kernels
