// The decoder's join on the CPU: one pass over lines of coarse pixels, each with the one or two lines of fine pixels it
// covers.
#include "kernels/activation.h"
#include "kernels/hardswish.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

// In these loops a line has `width` coarse pixels; f is 1 or 2; fine lines follow each other.
#define CIRRUS_LOOPS(T)                                                                                               \
  CIRRUS_DISPATCH void cat_act_line(const T* coarse, const T* fine, T* y, std::int64_t width, std::int64_t f,         \
                                    std::int64_t ca, std::int64_t cb, float wa, float wb) {                           \
    const std::int64_t c = ca + cb, line = width * f;                                                                 \
    for (std::int64_t x = 0; x < width; ++x, coarse += ca) {                                                          \
      T* first = y + x * f * c;                                                                                       \
      for (std::int64_t j = 0; j < ca; ++j) store(first + j, hardswish(load(coarse + j) * wa));                       \
      for (std::int64_t i = 1; i < f * f; ++i) std::copy(first, first + ca, first + ((i / f) * line + i % f) * c);    \
    }                                                                                                                 \
    for (std::int64_t x = 0; x < f * line; ++x)                                                                       \
      for (std::int64_t j = 0; j < cb; ++j) store(y + x * c + ca + j, hardswish(load(fine + x * cb + j) * wb));       \
  }                                                                                                                   \
  CIRRUS_DISPATCH void cat_act_line_backward(const T* coarse, const T* fine, const T* g, T* dcoarse, T* dfine,        \
                                             float* sum, std::int64_t width, std::int64_t f, std::int64_t ca,         \
                                             std::int64_t cb, float wa, float wb) {                                   \
    const std::int64_t c = ca + cb, line = width * f;                                                                 \
    for (std::int64_t x = 0; x < width; ++x, coarse += ca, dcoarse += ca) {                                           \
      const T* first = g + x * f * c;                                                                                 \
      for (std::int64_t j = 0; j < ca; ++j) sum[j] = load(first + j);                                                 \
      for (std::int64_t i = 1; i < f * f; ++i) {                                                                      \
        const T* next = first + ((i / f) * line + i % f) * c;                                                         \
        for (std::int64_t j = 0; j < ca; ++j) sum[j] += load(next + j);                                               \
      }                                                                                                               \
      for (std::int64_t j = 0; j < ca; ++j) store(dcoarse + j, sum[j] * hardswish_slope(load(coarse + j) * wa) * wa); \
    }                                                                                                                 \
    for (std::int64_t x = 0; x < f * line; ++x)                                                                       \
      for (std::int64_t j = 0; j < cb; ++j)                                                                           \
        store(dfine + x * cb + j, load(g + x * c + ca + j) * hardswish_slope(load(fine + x * cb + j) * wb) * wb);     \
  }                                                                                                                   \
  CIRRUS_DISPATCH void sum_line(const T* coarse, const T* fine, const T* other, T* y, std::int64_t width,             \
                                std::int64_t f, std::int64_t c, float ka, float kb, float ko) {                       \
    for (std::int64_t x = 0; x < width * f * f; ++x) {                                                                \
      const T* a = coarse + x % (width * f) / f * c;                                                                  \
      for (std::int64_t j = 0; j < c; ++j)                                                                            \
        store(y + x * c + j, load(a + j) * ka + load(fine + x * c + j) * kb + load(other + x * c + j) * ko);          \
    }                                                                                                                 \
  }                                                                                                                   \
  CIRRUS_DISPATCH void sum_line_backward(const T* g, T* dcoarse, T* dfine, T* dother, float* sum, std::int64_t width, \
                                         std::int64_t f, std::int64_t c, float ka, float kb, float ko) {              \
    for (std::int64_t x = 0; x < width; ++x, dcoarse += c) {                                                          \
      for (std::int64_t j = 0; j < c; ++j) sum[j] = 0.f;                                                              \
      for (std::int64_t i = 0; i < f * f; ++i) {                                                                      \
        const std::int64_t at = (((i / f) * width + x) * f + i % f) * c;                                              \
        for (std::int64_t j = 0; j < c; ++j) {                                                                        \
          const float v = load(g + at + j);                                                                           \
          sum[j] += v;                                                                                                \
          store(dfine + at + j, v * kb);                                                                              \
          store(dother + at + j, v * ko);                                                                             \
        }                                                                                                             \
      }                                                                                                               \
      for (std::int64_t j = 0; j < c; ++j) store(dcoarse + j, sum[j] * ka);                                           \
    }                                                                                                                 \
  }

CIRRUS_LOOPS(float)
CIRRUS_LOOPS(Bf16)
#undef CIRRUS_LOOPS

/// Lines of coarse pixels, and where line r begins in a tensor of `channels` with f x f pixels to each coarse one.
struct Lines {
  std::int64_t count, width, f;
  std::int64_t at(std::int64_t r, std::int64_t channels, bool fine) const {
    return r * width * channels * (fine ? f * f : 1);
  }
};
Lines lines_of(const at::Tensor& coarse, const at::Tensor& fine) {
  return {coarse.size(0) * coarse.size(2), coarse.size(3), fine.size(2) / coarse.size(2)};
}

}  // namespace

namespace cpu {

at::Tensor upsample_cat_act(const at::Tensor& coarse, const at::Tensor& fine) {
  const std::int64_t ca = coarse.size(1), cb = fine.size(1);
  const at::Tensor y =
      at::empty({fine.size(0), ca + cb, fine.size(2), fine.size(3)}, fine.options(), at::MemoryFormat::ChannelsLast);
  const auto [wa, wb] = cat_weights(ca, cb);
  const Lines l = lines_of(coarse, fine);
  by_dtype(fine, [&, wa = static_cast<float>(wa), wb = static_cast<float>(wb)]<typename T>(T*) {
    parallel(l.count, kGrain / l.at(1, ca + cb, true), [&](std::int64_t r, std::int64_t end) {
      for (; r < end; ++r)
        cat_act_line(data<T>(coarse) + l.at(r, ca, false), data<T>(fine) + l.at(r, cb, true),
                     data<T>(y) + l.at(r, ca + cb, true), l.width, l.f, ca, cb, wa, wb);
    });
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor> upsample_cat_act_backward(const at::Tensor& coarse, const at::Tensor& fine,
                                                             const at::Tensor& grad) {
  const at::Tensor da = like_channels_last(coarse), db = like_channels_last(fine);
  const std::int64_t ca = coarse.size(1), cb = fine.size(1);
  const auto [wa, wb] = cat_weights(ca, cb);
  const Lines l = lines_of(coarse, fine);
  by_dtype(fine, [&, wa = static_cast<float>(wa), wb = static_cast<float>(wb)]<typename T>(T*) {
    parallel(l.count, kGrain / l.at(1, ca + cb, true), [&](std::int64_t r, std::int64_t end) {
      std::vector<float> sum(static_cast<std::size_t>(ca));
      for (; r < end; ++r)
        cat_act_line_backward(data<T>(coarse) + l.at(r, ca, false), data<T>(fine) + l.at(r, cb, true),
                              data<T>(grad) + l.at(r, ca + cb, true), data<T>(da) + l.at(r, ca, false),
                              data<T>(db) + l.at(r, cb, true), sum.data(), l.width, l.f, ca, cb, wa, wb);
    });
  });
  return {da, db};
}

at::Tensor upsample_sum(const at::Tensor& coarse, const at::Tensor& fine, const at::Tensor& other,
                        at::ArrayRef<double> k) {
  const at::Tensor y = like_channels_last(fine);
  const std::int64_t c = fine.size(1);
  const Lines l = lines_of(coarse, fine);
  by_dtype(fine, [&]<typename T>(T*) {
    parallel(l.count, kGrain / l.at(1, c, true), [&](std::int64_t r, std::int64_t end) {
      for (; r < end; ++r)
        sum_line(data<T>(coarse) + l.at(r, c, false), data<T>(fine) + l.at(r, c, true),
                 data<T>(other) + l.at(r, c, true), data<T>(y) + l.at(r, c, true), l.width, l.f, c,
                 static_cast<float>(k[0]), static_cast<float>(k[1]), static_cast<float>(k[2]));
    });
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> upsample_sum_backward(const at::Tensor& grad, std::int64_t factor,
                                                                     at::ArrayRef<double> k) {
  const std::int64_t c = grad.size(1);
  const at::Tensor da = at::empty({grad.size(0), c, grad.size(2) / factor, grad.size(3) / factor}, grad.options(),
                                  at::MemoryFormat::ChannelsLast),
                   db = like_channels_last(grad), dother = like_channels_last(grad);
  const Lines l = lines_of(da, grad);
  by_dtype(grad, [&]<typename T>(T*) {
    parallel(l.count, kGrain / l.at(1, c, true), [&](std::int64_t r, std::int64_t end) {
      std::vector<float> sum(static_cast<std::size_t>(c));
      for (; r < end; ++r)
        sum_line_backward(data<T>(grad) + l.at(r, c, true), data<T>(da) + l.at(r, c, false),
                          data<T>(db) + l.at(r, c, true), data<T>(dother) + l.at(r, c, true), sum.data(), l.width, l.f,
                          c, static_cast<float>(k[0]), static_cast<float>(k[1]), static_cast<float>(k[2]));
    });
  });
  return {da, db, dother};
}

}  // namespace cpu
}  // namespace cirrus::kernels
