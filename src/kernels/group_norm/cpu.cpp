// Group normalisation on the CPU: a pass for the statistics and one that applies them, each way, over blocks of rows
// whose length depends on the channels alone. Sums are float32 inside a block and double from there, in the order of
// blocks and samples, so that results do not depend on the threads.
#include <cmath>

#include "kernels/exponential.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

#define CIRRUS_LOOPS(T)                                                                                             \
  /* Sums of x - shift and its square over rows, by channel. */                                                     \
  CIRRUS_DISPATCH void moments(const T* __restrict x, const float* __restrict shift, float* __restrict sum,         \
                               float* __restrict square, std::int64_t rows, std::int64_t c) {                       \
    for (std::int64_t j = 0; j < c; ++j) sum[j] = square[j] = 0.f;                                                  \
    std::int64_t r = 0;                                                                                             \
    for (; r + 4 <= rows; r += 4, x += 4 * c)                                                                       \
      for (std::int64_t j = 0; j < c; ++j) {                                                                        \
        const float k = shift[j], v0 = load(x + j) - k, v1 = load(x + c + j) - k, v2 = load(x + 2 * c + j) - k,     \
                    v3 = load(x + 3 * c + j) - k;                                                                   \
        sum[j] += (v0 + v1) + (v2 + v3);                                                                            \
        square[j] += (v0 * v0 + v1 * v1) + (v2 * v2 + v3 * v3);                                                     \
      }                                                                                                             \
    for (; r < rows; ++r, x += c)                                                                                   \
      for (std::int64_t j = 0; j < c; ++j) {                                                                        \
        const float v = load(x + j) - shift[j];                                                                     \
        sum[j] += v;                                                                                                \
        square[j] += v * v;                                                                                         \
      }                                                                                                             \
  }                                                                                                                 \
  CIRRUS_DISPATCH void apply(const T* __restrict x, const float* __restrict k, const float* __restrict o,           \
                             T* __restrict y, std::int64_t rows, std::int64_t c, bool silu) {                       \
    for (std::int64_t r = 0; r < rows; ++r, x += c, y += c) {                                                       \
      if (silu) {                                                                                                   \
        for (std::int64_t j = 0; j < c; ++j) {                                                                      \
          const float v = load(x + j) * k[j] + o[j];                                                                \
          store(y + j, v * sigmoid(v));                                                                             \
        }                                                                                                           \
      } else {                                                                                                      \
        for (std::int64_t j = 0; j < c; ++j) store(y + j, load(x + j) * k[j] + o[j]);                               \
      }                                                                                                             \
    }                                                                                                               \
  }                                                                                                                 \
  /* Sums over rows of the gradient before SiLU, and of its product with the normalised x = x k + o, by channel. */ \
  CIRRUS_DISPATCH void reduce(const T* __restrict x, const T* __restrict g, const float* __restrict k,              \
                              const float* __restrict o, const float* __restrict w, const float* __restrict b,      \
                              float* __restrict sum, float* __restrict product, std::int64_t rows, std::int64_t c,  \
                              bool silu) {                                                                          \
    for (std::int64_t j = 0; j < c; ++j) sum[j] = product[j] = 0.f;                                                 \
    for (std::int64_t r = 0; r < rows; ++r, x += c, g += c) {                                                       \
      if (silu) {                                                                                                   \
        for (std::int64_t j = 0; j < c; ++j) {                                                                      \
          const float n = load(x + j) * k[j] + o[j], v = n * w[j] + b[j];                                           \
          const float d = load(g + j) * silu_slope(v);                                                              \
          sum[j] += d;                                                                                              \
          product[j] += d * n;                                                                                      \
        }                                                                                                           \
      } else {                                                                                                      \
        for (std::int64_t j = 0; j < c; ++j) {                                                                      \
          const float d = load(g + j);                                                                              \
          sum[j] += d;                                                                                              \
          product[j] += d * (load(x + j) * k[j] + o[j]);                                                            \
        }                                                                                                           \
      }                                                                                                             \
    }                                                                                                               \
  }                                                                                                                 \
  /* dx = d k1 + x k2 + k3, d the gradient before SiLU at x k + o. */                                               \
  CIRRUS_DISPATCH void propagate(const T* __restrict x, const T* __restrict g, const float* __restrict k,           \
                                 const float* __restrict o, const float* __restrict k1, const float* __restrict k2, \
                                 const float* __restrict k3, T* __restrict dx, std::int64_t rows, std::int64_t c,   \
                                 bool silu) {                                                                       \
    for (std::int64_t r = 0; r < rows; ++r, x += c, g += c, dx += c) {                                              \
      if (silu) {                                                                                                   \
        for (std::int64_t j = 0; j < c; ++j) {                                                                      \
          const float v = load(x + j), d = load(g + j) * silu_slope(v * k[j] + o[j]);                               \
          store(dx + j, d * k1[j] + (v * k2[j] + k3[j]));                                                           \
        }                                                                                                           \
      } else {                                                                                                      \
        for (std::int64_t j = 0; j < c; ++j) store(dx + j, load(g + j) * k1[j] + (load(x + j) * k2[j] + k3[j]));    \
      }                                                                                                             \
    }                                                                                                               \
  }

/// Derivative of v sigmoid(v).
inline float silu_slope(float v) {
  const float s = sigmoid(v);
  return s * (1.f + v * (1.f - s));
}

CIRRUS_LOOPS(float)
CIRRUS_LOOPS(Bf16)
#undef CIRRUS_LOOPS

/// The blocks of rows a tensor is worked through in.
struct Blocks {
  std::int64_t samples, rows, channels, length, count;  ///< rows of a sample; rows of a block; blocks of a sample
  explicit Blocks(const at::Tensor& x)
      : samples(x.size(0)),
        rows(x.size(2) * x.size(3)),
        channels(x.size(1)),
        length(std::max<std::int64_t>(16, kGrain / channels)),
        count((rows + length - 1) / length) {}
  std::int64_t rows_of(std::int64_t block) const { return std::min(length, rows - block * length); }
  std::int64_t at(std::int64_t sample, std::int64_t block) const { return (sample * rows + block * length) * channels; }
  /// Where the two sums of a block begin in the scratch memory of all.
  std::int64_t sums(std::int64_t sample, std::int64_t block) const { return (sample * count + block) * 2 * channels; }
};

/// Runs first(sample, block) for all blocks of a sample, then between(sample), then second(sample, block). Samples
/// follow each other where there are enough for all threads, so that the second pass finds its rows in the cache.
template <typename First, typename Between, typename Second>
void two_passes(const Blocks& b, First&& first, Between&& between, Second&& second) {
  if (b.samples >= at::get_num_threads()) {
    parallel(b.samples, kGrain / (b.rows * b.channels), [&](std::int64_t n, std::int64_t end) {
      for (; n < end; ++n) {
        for (std::int64_t k = 0; k < b.count; ++k) first(n, k);
        between(n);
        for (std::int64_t k = 0; k < b.count; ++k) second(n, k);
      }
    });
    return;
  }
  const auto all_blocks = [&](auto&& pass) {
    parallel(b.samples * b.count, kGrain / (b.length * b.channels), [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) pass(i / b.count, i % b.count);
    });
  };
  all_blocks(first);
  for (std::int64_t n = 0; n < b.samples; ++n) between(n);
  all_blocks(second);
}

std::vector<float> floats(std::int64_t n) { return std::vector<float>(static_cast<std::size_t>(n)); }
std::vector<double> doubles(std::int64_t n) { return std::vector<double>(static_cast<std::size_t>(n)); }

/// Adds up one channel of one of a sample's two sums over its blocks.
double total(const std::vector<float>& sums, const Blocks& b, std::int64_t sample, std::int64_t which, std::int64_t c) {
  double t = 0;
  for (std::int64_t k = 0; k < b.count; ++k)
    t += static_cast<double>(sums[static_cast<std::size_t>(b.sums(sample, k) + which * b.channels + c)]);
  return t;
}

}  // namespace

namespace cpu {

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm(const at::Tensor& x, std::int64_t groups,
                                                          const at::Tensor& weight, const at::Tensor& bias, double eps,
                                                          bool silu) {
  const Blocks b(x);
  const std::int64_t c = b.channels, width = c / groups;
  const at::Tensor y = like_channels_last(x), mean = at::empty({b.samples * groups}, weight.options()),
                   inv = at::empty_like(mean);
  std::vector<float> sums = floats(b.samples * b.count * 2 * c), shift = floats(b.samples * c),
                     factor = floats(b.samples * c), offset = floats(b.samples * c);
  const float *w = data<float>(weight), *o = data<float>(bias);
  by_dtype(x, [&]<typename T>(T*) {
    // Each channel is shifted by its first value, so that a mean far from zero costs no digits of the variance.
    for (std::int64_t n = 0; n < b.samples; ++n)
      for (std::int64_t j = 0; j < c; ++j)
        shift[static_cast<std::size_t>(n * c + j)] = load(data<T>(x) + b.at(n, 0) + j);
    two_passes(
        b,
        [&](std::int64_t n, std::int64_t k) {
          float* s = sums.data() + b.sums(n, k);
          moments(data<T>(x) + b.at(n, k), shift.data() + n * c, s, s + c, b.rows_of(k), c);
        },
        [&](std::int64_t n) {
          const double rows = static_cast<double>(b.rows), values = rows * static_cast<double>(width);
          std::vector<double> means = doubles(width);
          for (std::int64_t g = 0; g < groups; ++g) {
            double centre = 0, squares = 0;
            for (std::int64_t j = 0; j < width; ++j) {
              const std::int64_t channel = g * width + j;
              const double sum = total(sums, b, n, 0, channel);
              squares += total(sums, b, n, 1, channel) - sum * sum / rows;
              centre += means[static_cast<std::size_t>(j)] =
                  static_cast<double>(shift[static_cast<std::size_t>(n * c + channel)]) + sum / rows;
            }
            centre /= static_cast<double>(width);
            for (const double m : means) squares += rows * (m - centre) * (m - centre);
            const double scale = 1 / std::sqrt(std::max(squares, 0.0) / values + eps);
            data<float>(mean)[n * groups + g] = static_cast<float>(centre);
            data<float>(inv)[n * groups + g] = static_cast<float>(scale);
            for (std::int64_t channel = g * width; channel < (g + 1) * width; ++channel) {
              const double k = scale * static_cast<double>(w[channel]);
              factor[static_cast<std::size_t>(n * c + channel)] = static_cast<float>(k);
              offset[static_cast<std::size_t>(n * c + channel)] =
                  static_cast<float>(static_cast<double>(o[channel]) - centre * k);
            }
          }
        },
        [&](std::int64_t n, std::int64_t k) {
          apply(data<T>(x) + b.at(n, k), factor.data() + n * c, offset.data() + n * c, data<T>(y) + b.at(n, k),
                b.rows_of(k), c, silu);
        });
  });
  return {y, mean, inv};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_backward(const at::Tensor& x, std::int64_t groups,
                                                                   const at::Tensor& weight, const at::Tensor& bias,
                                                                   const at::Tensor& mean, const at::Tensor& inv,
                                                                   bool silu, const at::Tensor& grad) {
  const Blocks b(x);
  const std::int64_t c = b.channels, width = c / groups;
  const at::Tensor dx = like_channels_last(x), dweight = at::empty_like(weight), dbias = at::empty_like(bias);
  const float *w = data<float>(weight), *o = data<float>(bias), *centre = data<float>(mean), *scale = data<float>(inv);
  // By sample and channel: normalised x = x k + m; the argument of SiLU is x a + s; dx = d k1 + x k2 + k3.
  std::vector<float> sums = floats(b.samples * b.count * 2 * c), k = floats(b.samples * c), m = k, a = k, s = k, k1 = k,
                     k2 = k, k3 = k;
  std::vector<double> dw = doubles(b.samples * c), db = dw;
  for (std::int64_t i = 0; i < b.samples * c; ++i) {
    const std::int64_t group = i / width, channel = i % c;
    const auto at = static_cast<std::size_t>(i);
    k[at] = scale[group];
    m[at] = -centre[group] * scale[group];
    k1[at] = a[at] = scale[group] * w[channel];
    s[at] = m[at] * w[channel] + o[channel];
  }
  by_dtype(x, [&]<typename T>(T*) {
    two_passes(
        b,
        [&](std::int64_t n, std::int64_t block) {
          float* sum = sums.data() + b.sums(n, block);
          reduce(data<T>(x) + b.at(n, block), data<T>(grad) + b.at(n, block), k.data() + n * c, m.data() + n * c, w, o,
                 sum, sum + c, b.rows_of(block), c, silu);
        },
        [&](std::int64_t n) {
          const double values = static_cast<double>(b.rows * width);
          for (std::int64_t g = 0; g < groups; ++g) {
            double sum = 0, product = 0;
            for (std::int64_t j = g * width; j < (g + 1) * width; ++j) {
              const auto at = static_cast<std::size_t>(n * c + j);
              db[at] = total(sums, b, n, 0, j);
              dw[at] = total(sums, b, n, 1, j);
              sum += db[at] * static_cast<double>(w[j]);
              product += dw[at] * static_cast<double>(w[j]);
            }
            const double r = static_cast<double>(scale[n * groups + g]), slope = -r * r * product / values;
            const double rest = -r * sum / values - static_cast<double>(centre[n * groups + g]) * slope;
            std::fill_n(k2.begin() + n * c + g * width, width, static_cast<float>(slope));
            std::fill_n(k3.begin() + n * c + g * width, width, static_cast<float>(rest));
          }
        },
        [&](std::int64_t n, std::int64_t block) {
          propagate(data<T>(x) + b.at(n, block), data<T>(grad) + b.at(n, block), a.data() + n * c, s.data() + n * c,
                    k1.data() + n * c, k2.data() + n * c, k3.data() + n * c, data<T>(dx) + b.at(n, block),
                    b.rows_of(block), c, silu);
        });
  });
  for (std::int64_t j = 0; j < c; ++j) {
    double weight_sum = 0, bias_sum = 0;
    for (std::int64_t n = 0; n < b.samples; ++n) {
      weight_sum += dw[static_cast<std::size_t>(n * c + j)];
      bias_sum += db[static_cast<std::size_t>(n * c + j)];
    }
    data<float>(dweight)[j] = static_cast<float>(weight_sum);
    data<float>(dbias)[j] = static_cast<float>(bias_sum);
  }
  return {dx, dweight, dbias};
}

}  // namespace cpu
}  // namespace cirrus::kernels
