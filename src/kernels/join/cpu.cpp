// The decoder's join on the CPU: one pass over lines of coarse pixels, each with the one or two lines of fine pixels it
// covers.
#include "kernels/join.h"

#include "kernels/autograd.h"
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

struct UpsampleCatAct : Function<UpsampleCatAct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& coarse, const at::Tensor& fine) {
    const at::Tensor a = channels_last(coarse), b = channels_last(fine);
    const std::int64_t ca = a.size(1), cb = b.size(1);
    const at::Tensor y =
        at::empty({b.size(0), ca + cb, b.size(2), b.size(3)}, b.options(), at::MemoryFormat::ChannelsLast);
    const auto [wa, wb] = cat_weights(ca, cb);
    const Lines l = lines_of(a, b);
    by_dtype(a, [&, wa = static_cast<float>(wa), wb = static_cast<float>(wb)]<typename T>(T*) {
      parallel(l.count, kGrain / l.at(1, ca + cb, true), [&](std::int64_t r, std::int64_t end) {
        for (; r < end; ++r)
          cat_act_line(data<T>(a) + l.at(r, ca, false), data<T>(b) + l.at(r, cb, true),
                       data<T>(y) + l.at(r, ca + cb, true), l.width, l.f, ca, cb, wa, wb);
      });
    });
    ctx->save_for_backward({a, b});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &a = saved[0], &b = saved[1];
    const at::Tensor g = channels_last(grads[0]), da = like_channels_last(a), db = like_channels_last(b);
    const std::int64_t ca = a.size(1), cb = b.size(1);
    const auto [wa, wb] = cat_weights(ca, cb);
    const Lines l = lines_of(a, b);
    by_dtype(a, [&, wa = static_cast<float>(wa), wb = static_cast<float>(wb)]<typename T>(T*) {
      parallel(l.count, kGrain / l.at(1, ca + cb, true), [&](std::int64_t r, std::int64_t end) {
        std::vector<float> sum(static_cast<std::size_t>(ca));
        for (; r < end; ++r)
          cat_act_line_backward(data<T>(a) + l.at(r, ca, false), data<T>(b) + l.at(r, cb, true),
                                data<T>(g) + l.at(r, ca + cb, true), data<T>(da) + l.at(r, ca, false),
                                data<T>(db) + l.at(r, cb, true), sum.data(), l.width, l.f, ca, cb, wa, wb);
      });
    });
    return {da, db};
  }
};

struct UpsampleSum : Function<UpsampleSum> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& coarse, const at::Tensor& fine,
                            const at::Tensor& other, double ka, double kb, double ko) {
    const at::Tensor a = channels_last(coarse), b = channels_last(fine), o = channels_last(other),
                     y = like_channels_last(b);
    const std::int64_t c = b.size(1);
    const Lines l = lines_of(a, b);
    by_dtype(a, [&]<typename T>(T*) {
      parallel(l.count, kGrain / l.at(1, c, true), [&](std::int64_t r, std::int64_t end) {
        for (; r < end; ++r)
          sum_line(data<T>(a) + l.at(r, c, false), data<T>(b) + l.at(r, c, true), data<T>(o) + l.at(r, c, true),
                   data<T>(y) + l.at(r, c, true), l.width, l.f, c, static_cast<float>(ka), static_cast<float>(kb),
                   static_cast<float>(ko));
      });
    });
    ctx->saved_data["k"] = std::vector<double>{ka, kb, ko};
    ctx->saved_data["shape"] = a.sizes().vec();
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor g = channels_last(grads[0]), db = like_channels_last(g), dother = like_channels_last(g);
    const at::Tensor da =
        at::empty(ctx->saved_data["shape"].toIntVector(), g.options(), at::MemoryFormat::ChannelsLast);
    const std::vector<double> k = ctx->saved_data["k"].toDoubleVector();
    const std::int64_t c = g.size(1);
    const Lines l = lines_of(da, g);
    by_dtype(g, [&]<typename T>(T*) {
      parallel(l.count, kGrain / l.at(1, c, true), [&](std::int64_t r, std::int64_t end) {
        std::vector<float> sum(static_cast<std::size_t>(c));
        for (; r < end; ++r)
          sum_line_backward(data<T>(g) + l.at(r, c, true), data<T>(da) + l.at(r, c, false),
                            data<T>(db) + l.at(r, c, true), data<T>(dother) + l.at(r, c, true), sum.data(), l.width,
                            l.f, c, static_cast<float>(k[0]), static_cast<float>(k[1]), static_cast<float>(k[2]));
      });
    });
    return {da, db, dother, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

void check(const at::Tensor& coarse, const at::Tensor& fine, const char* name) {
  TORCH_CHECK(coarse.dim() == 4 && fine.dim() == 4 && coarse.scalar_type() == fine.scalar_type() &&
                  coarse.size(0) == fine.size(0) && coarse.size(2) > 0 && coarse.size(3) > 0 &&
                  ((coarse.size(2) == fine.size(2) && coarse.size(3) == fine.size(3)) ||
                   (2 * coarse.size(2) == fine.size(2) && 2 * coarse.size(3) == fine.size(3))),
              name, ": ", coarse.toString(), coarse.sizes(), " and ", fine.toString(), fine.sizes());
}

}  // namespace

at::Tensor upsample_cat_act(const at::Tensor& coarse, const at::Tensor& fine) {
  check(coarse, fine, "upsample_cat_act");
  return use_cpu_kernel(fine) ? UpsampleCatAct::apply(coarse, fine) : reference::upsample_cat_act(coarse, fine);
}

at::Tensor upsample_sum(const at::Tensor& coarse, const at::Tensor& fine, const at::Tensor& other,
                        const std::array<double, 3>& k) {
  check(coarse, fine, "upsample_sum");
  TORCH_CHECK(
      other.sizes() == fine.sizes() && other.scalar_type() == fine.scalar_type() && coarse.size(1) == fine.size(1),
      "upsample_sum: ", coarse.sizes(), ", ", fine.sizes(), " and ", other.toString(), other.sizes());
  return use_cpu_kernel(fine) ? UpsampleSum::apply(coarse, fine, other, k[0], k[1], k[2])
                              : reference::upsample_sum(coarse, fine, other, k);
}

}  // namespace cirrus::kernels
