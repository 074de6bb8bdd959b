// The pointwise network operators on the CPU: one pass over rows of channels each way, float32 or bfloat16 storage,
// arithmetic in float32, vectorised by the compiler for the processor found at run time.
#include "kernels/hardswish.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

constexpr std::int64_t kNearest = 768;  // values that stay in the nearest cache between two passes

/// Of `left` rows, as many as those.
std::int64_t nearest_rows(const Rows& rows, std::int64_t left) {
  return std::min(left, std::max<std::int64_t>(1, kNearest / rows.channels));
}

#define CIRRUS_LOOPS(T)                                                                                                \
  CIRRUS_DISPATCH void act_forward(const T* x, T* y, std::int64_t n) {                                                 \
    for (std::int64_t i = 0; i < n; ++i) store(y + i, hardswish(load(x + i)));                                         \
  }                                                                                                                    \
  CIRRUS_DISPATCH void act_backward(const T* x, const T* g, T* dx, std::int64_t n) {                                   \
    for (std::int64_t i = 0; i < n; ++i) store(dx + i, load(g + i) * hardswish_slope(load(x + i)));                    \
  }                                                                                                                    \
  CIRRUS_DISPATCH void scale_act_forward(const T* x, const float* s, T* y, std::int64_t rows, std::int64_t c) {        \
    for (std::int64_t r = 0; r < rows; ++r)                                                                            \
      for (std::int64_t j = 0; j < c; ++j) store(y + r * c + j, hardswish(load(x + r * c + j) * s[j]));                \
  }                                                                                                                    \
  CIRRUS_DISPATCH void scale_act_backward(const T* x, const float* s, const T* g, T* dx, float* ds, std::int64_t rows, \
                                          std::int64_t c) {                                                            \
    for (std::int64_t r = 0; r < rows; ++r)                                                                            \
      for (std::int64_t j = 0; j < c; ++j) {                                                                           \
        const float v = load(x + r * c + j), d = load(g + r * c + j) * hardswish_slope(v * s[j]);                      \
        store(dx + r * c + j, d * s[j]);                                                                               \
        ds[j] += d * v;                                                                                                \
      }                                                                                                                \
  }                                                                                                                    \
  CIRRUS_DISPATCH void pixel_norm_act_forward(const T* x, T* xn, T* y, float* inv, std::int64_t rows,                  \
                                              std::int64_t c) {                                                        \
    for (std::int64_t r = 0; r < rows; ++r) {                                                                          \
      float ss = 0.f;                                                                                                  \
      const T* p = x + r * c;                                                                                          \
      _Pragma("omp simd reduction(+ : ss)") for (std::int64_t j = 0; j < c; ++j) ss += load(p + j) * load(p + j);      \
      inv[r] = ss;                                                                                                     \
    }                                                                                                                  \
    for (std::int64_t r = 0; r < rows; ++r)                                                                            \
      inv[r] =                                                                                                         \
          1.f / std::sqrt(inv[r] / static_cast<float>(c) + static_cast<float>(kPixelNormEpsilon * kPixelNormEpsilon)); \
    for (std::int64_t r = 0; r < rows; ++r, x += c, xn += c, y += c) {                                                 \
      const float k = inv[r];                                                                                          \
      for (std::int64_t j = 0; j < c; ++j) {                                                                           \
        const float v = load(x + j) * k;                                                                               \
        store(xn + j, v);                                                                                              \
        store(y + j, hardswish(v));                                                                                    \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  /* total: scratch memory for the gradients of these rows' normalised values. */                                      \
  CIRRUS_DISPATCH void pixel_norm_act_backward(const T* xn, const float* inv, const T* gx, const T* gy, T* dx,         \
                                               float* total, std::int64_t rows, std::int64_t c) {                      \
    for (std::int64_t i = 0; i < rows * c; ++i)                                                                        \
      total[i] = load(gx + i) + load(gy + i) * hardswish_slope(load(xn + i));                                          \
    for (std::int64_t r = 0; r < rows; ++r, xn += c, total += c, dx += c) {                                            \
      float dot = 0.f;                                                                                                 \
      _Pragma("omp simd reduction(+ : dot)") for (std::int64_t j = 0; j < c; ++j) dot += total[j] * load(xn + j);      \
      dot /= static_cast<float>(c);                                                                                    \
      const float k = inv[r];                                                                                          \
      for (std::int64_t j = 0; j < c; ++j) store(dx + j, k * (total[j] - load(xn + j) * dot));                         \
    }                                                                                                                  \
  }                                                                                                                    \
  CIRRUS_DISPATCH void weighted_sum(const T* a, const T* b, T* y, std::int64_t n, float wa, float wb) {                \
    for (std::int64_t i = 0; i < n; ++i) store(y + i, load(a + i) * wa + load(b + i) * wb);                            \
  }                                                                                                                    \
  CIRRUS_DISPATCH void weighted_copies(const T* g, T* da, T* db, std::int64_t n, float wa, float wb) {                 \
    for (std::int64_t i = 0; i < n; ++i) {                                                                             \
      store(da + i, load(g + i) * wa);                                                                                 \
      store(db + i, load(g + i) * wb);                                                                                 \
    }                                                                                                                  \
  }

CIRRUS_LOOPS(float)
CIRRUS_LOOPS(Bf16)
#undef CIRRUS_LOOPS

}  // namespace

namespace cpu {

at::Tensor act(const at::Tensor& x) {
  const at::Tensor y = like_channels_last(x);
  by_dtype(x, [&]<typename T>(T*) {
    parallel(x.numel(), kGrain,
             [&](std::int64_t i, std::int64_t end) { act_forward(data<T>(x) + i, data<T>(y) + i, end - i); });
  });
  return y;
}

at::Tensor act_backward(const at::Tensor& x, const at::Tensor& grad) {
  const at::Tensor dx = like_channels_last(x);
  by_dtype(x, [&]<typename T>(T*) {
    parallel(x.numel(), kGrain, [&](std::int64_t i, std::int64_t end) {
      kernels::act_backward(data<T>(x) + i, data<T>(grad) + i, data<T>(dx) + i, end - i);
    });
  });
  return dx;
}

at::Tensor scale_act(const at::Tensor& x, const at::Tensor& scale) {
  const at::Tensor y = like_channels_last(x);
  const Rows rows = rows_of(x);
  by_dtype(x, [&]<typename T>(T*) {
    parallel(rows.count, kGrain / rows.channels, [&](std::int64_t i, std::int64_t end) {
      while (i < end) {  // a thread's rows may span samples
        const std::int64_t n = i / rows.per_sample, stop = std::min(end, (n + 1) * rows.per_sample),
                           at = i * rows.channels;
        scale_act_forward(data<T>(x) + at, data<float>(scale) + n * rows.channels, data<T>(y) + at, stop - i,
                          rows.channels);
        i = stop;
      }
    });
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor> scale_act_backward(const at::Tensor& x, const at::Tensor& scale,
                                                      const at::Tensor& grad) {
  const at::Tensor dx = like_channels_last(x), ds = at::zeros_like(scale);
  const Rows rows = rows_of(x);
  by_dtype(x, [&]<typename T>(T*) {  // one sample is one thread's, so that ds needs no reduction and is deterministic
    parallel(scale.size(0), 1, [&](std::int64_t n, std::int64_t end) {
      for (; n < end; ++n) {
        const std::int64_t at = n * rows.per_sample * rows.channels;
        kernels::scale_act_backward(data<T>(x) + at, data<float>(scale) + n * rows.channels, data<T>(grad) + at,
                                    data<T>(dx) + at, data<float>(ds) + n * rows.channels, rows.per_sample,
                                    rows.channels);
      }
    });
  });
  return {dx, ds};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> pixel_norm_act(const at::Tensor& x) {
  const at::Tensor normalised = like_channels_last(x), y = like_channels_last(x);
  const Rows rows = rows_of(x);
  const at::Tensor inv = at::empty({rows.count}, x.options().dtype(at::kFloat));
  by_dtype(x, [&]<typename T>(T*) {
    parallel(rows.count, kGrain / rows.channels, [&](std::int64_t i, std::int64_t end) {
      for (std::int64_t n; i < end; i += n) {
        n = nearest_rows(rows, end - i);
        const std::int64_t at = i * rows.channels;
        pixel_norm_act_forward(data<T>(x) + at, data<T>(normalised) + at, data<T>(y) + at, data<float>(inv) + i, n,
                               rows.channels);
      }
    });
  });
  return {normalised, y, inv};
}

at::Tensor pixel_norm_act_backward(const at::Tensor& normalised, const at::Tensor& inv,
                                   const at::Tensor& grad_normalised, const at::Tensor& grad_act) {
  const at::Tensor dx = like_channels_last(normalised);
  const Rows rows = rows_of(normalised);
  by_dtype(normalised, [&]<typename T>(T*) {
    parallel(rows.count, kGrain / rows.channels, [&](std::int64_t i, std::int64_t end) {
      std::vector<float> total(static_cast<std::size_t>(std::max(kNearest, rows.channels)));
      for (std::int64_t n; i < end; i += n) {
        n = nearest_rows(rows, end - i);
        const std::int64_t at = i * rows.channels;
        kernels::pixel_norm_act_backward(data<T>(normalised) + at, data<float>(inv) + i, data<T>(grad_normalised) + at,
                                         data<T>(grad_act) + at, data<T>(dx) + at, total.data(), n, rows.channels);
      }
    });
  });
  return dx;
}

at::Tensor mp_sum(const at::Tensor& a, const at::Tensor& b, double t) {
  const at::Tensor y = like_channels_last(a);
  const auto [wa, wb] = sum_weights(t);
  by_dtype(a, [&, wa = static_cast<float>(wa), wb = static_cast<float>(wb)]<typename T>(T*) {
    parallel(a.numel(), kGrain, [&](std::int64_t i, std::int64_t end) {
      weighted_sum(data<T>(a) + i, data<T>(b) + i, data<T>(y) + i, end - i, wa, wb);
    });
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor> mp_sum_backward(const at::Tensor& grad, double t) {
  const at::Tensor da = like_channels_last(grad), db = like_channels_last(grad);
  const auto [wa, wb] = sum_weights(t);
  by_dtype(grad, [&, wa = static_cast<float>(wa), wb = static_cast<float>(wb)]<typename T>(T*) {
    parallel(grad.numel(), kGrain, [&](std::int64_t i, std::int64_t end) {
      weighted_copies(data<T>(grad) + i, data<T>(da) + i, data<T>(db) + i, end - i, wa, wb);
    });
  });
  return {da, db};
}

}  // namespace cpu
}  // namespace cirrus::kernels
