// Phases in their places on the CPU: one pass over lines of fine pixels each way.
#include "kernels/hardswish.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

// A fine line has 2 w pixels of c channels; `even` and `odd` are where the phases of its pixels begin, `step` values
// apart from pixel to pixel.
#define CIRRUS_LOOPS(T)                                                                                       \
  CIRRUS_DISPATCH void join_line(const T* even, const T* odd, const T* fine, const float* s, T* sum, T* y,    \
                                 std::int64_t w, std::int64_t c, std::int64_t step) {                         \
    for (std::int64_t x = 0; x < 2 * w; ++x) {                                                                \
      const T* p = (x % 2 == 0 ? even : odd) + x / 2 * step;                                                  \
      for (std::int64_t j = 0; j < c; ++j) {                                                                  \
        const float v = load(p + j) + load(fine + x * c + j);                                                 \
        store(sum + x * c + j, v);                                                                            \
        store(y + x * c + j, hardswish(v * s[j]));                                                            \
      }                                                                                                       \
    }                                                                                                         \
  }                                                                                                           \
  CIRRUS_DISPATCH void join_line_backward(const T* sum, const T* g, const float* s, T* even, T* odd, T* fine, \
                                          float* ds, std::int64_t w, std::int64_t c, std::int64_t step) {     \
    for (std::int64_t x = 0; x < 2 * w; ++x) {                                                                \
      T* p = (x % 2 == 0 ? even : odd) + x / 2 * step;                                                        \
      for (std::int64_t j = 0; j < c; ++j) {                                                                  \
        const float v = load(sum + x * c + j), d = load(g + x * c + j) * hardswish_slope(v * s[j]);           \
        store(fine + x * c + j, d * s[j]);                                                                    \
        store(p + j, d * s[j]);                                                                               \
        ds[j] += d * v;                                                                                       \
      }                                                                                                       \
    }                                                                                                         \
  }

CIRRUS_LOOPS(float)
CIRRUS_LOOPS(Bf16)
#undef CIRRUS_LOOPS

/// Where in the phases those of a fine line's even and odd pixels begin.
struct Place {
  std::int64_t even, odd, step;
  Place(std::int64_t sample, std::int64_t row, std::int64_t h, std::int64_t w, std::int64_t c) : step(4 * c) {
    const std::int64_t py = row % 2, line = ((sample * (h + 1) + row / 2 + py) * (w + 1)) * step;
    even = line + 2 * py * c;
    odd = line + step + (2 * py + 1) * c;
  }
};

}  // namespace

namespace cpu {

std::tuple<at::Tensor, at::Tensor> phase_sum_scale_act(const at::Tensor& phases, const at::Tensor& fine,
                                                       const at::Tensor& scale) {
  const at::Tensor y = like_channels_last(fine), sum = like_channels_last(fine);
  const std::int64_t n = fine.size(0), c = fine.size(1), h = fine.size(2) / 2, w = fine.size(3) / 2;
  by_dtype(fine, [&]<typename T>(T*) {
    parallel(n * 2 * h, kGrain / (2 * w * c), [&](std::int64_t r, std::int64_t end) {
      for (; r < end; ++r) {
        const std::int64_t sample = r / (2 * h);
        const Place at(sample, r % (2 * h), h, w, c);
        join_line(data<T>(phases) + at.even, data<T>(phases) + at.odd, data<T>(fine) + r * 2 * w * c,
                  data<float>(scale) + sample * c, data<T>(sum) + r * 2 * w * c, data<T>(y) + r * 2 * w * c, w, c,
                  at.step);
      }
    });
  });
  return {y, sum};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> phase_sum_scale_act_backward(const at::Tensor& sum,
                                                                            const at::Tensor& scale,
                                                                            const at::Tensor& grad) {
  const std::int64_t n = sum.size(0), c = sum.size(1), h = sum.size(2) / 2, w = sum.size(3) / 2;
  // Each phase lies on h x w of the (h + 1) x (w + 1) places of the convolution: the others get no gradient.
  const at::Tensor dfine = like_channels_last(sum), ds = at::zeros_like(scale),
                   dphases = at::zeros({n, h + 1, w + 1, 4 * c}, sum.options()).permute({0, 3, 1, 2});
  by_dtype(sum, [&]<typename T>(T*) {  // one sample is one thread's, so that ds needs no reduction and is deterministic
    parallel(n, 1, [&](std::int64_t sample, std::int64_t end) {
      for (; sample < end; ++sample)
        for (std::int64_t row = 0; row < 2 * h; ++row) {
          const Place at(sample, row, h, w, c);
          const std::int64_t r = (sample * 2 * h + row) * 2 * w * c;
          join_line_backward(data<T>(sum) + r, data<T>(grad) + r, data<float>(scale) + sample * c,
                             data<T>(dphases) + at.even, data<T>(dphases) + at.odd, data<T>(dfine) + r,
                             data<float>(ds) + sample * c, w, c, at.step);
        }
    });
  });
  return {dphases, dfine, ds};
}

}  // namespace cpu
}  // namespace cirrus::kernels
