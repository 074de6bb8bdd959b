// The pointwise network operators on the CPU: one pass over rows of channels each way, float32 or bfloat16 storage,
// arithmetic in float32, vectorised by the compiler for the processor found at run time.
#include "kernels/autograd.h"
#include "kernels/hardswish.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

// ---- loops, compiled for several instruction sets
// --------------------------------------------------------------------------

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
    for (std::int64_t r = 0; r < rows; ++r, x += c, xn += c, y += c) {                                                 \
      float ss = 0.f;                                                                                                  \
      _Pragma("omp simd reduction(+ : ss)") for (std::int64_t j = 0; j < c; ++j) ss += load(x + j) * load(x + j);      \
      const float k =                                                                                                  \
          1.f / std::sqrt(ss / static_cast<float>(c) + static_cast<float>(kPixelNormEpsilon * kPixelNormEpsilon));     \
      inv[r] = k;                                                                                                      \
      for (std::int64_t j = 0; j < c; ++j) {                                                                           \
        const float v = load(x + j) * k;                                                                               \
        store(xn + j, v);                                                                                              \
        store(y + j, hardswish(v));                                                                                    \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  CIRRUS_DISPATCH void pixel_norm_act_backward(const T* xn, const float* inv, const T* gx, const T* gy, T* dx,         \
                                               std::int64_t rows, std::int64_t c) {                                    \
    for (std::int64_t r = 0; r < rows; ++r, xn += c, gx += c, gy += c, dx += c) {                                      \
      float dot = 0.f;                                                                                                 \
      _Pragma("omp simd reduction(+ : dot)") for (std::int64_t j = 0; j < c; ++j) {                                    \
        const float v = load(xn + j);                                                                                  \
        dot += (load(gx + j) + load(gy + j) * hardswish_slope(v)) * v;                                                 \
      }                                                                                                                \
      dot /= static_cast<float>(c);                                                                                    \
      for (std::int64_t j = 0; j < c; ++j) {                                                                           \
        const float v = load(xn + j), g = load(gx + j) + load(gy + j) * hardswish_slope(v);                            \
        store(dx + j, inv[r] * (g - v * dot));                                                                         \
      }                                                                                                                \
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

// ---- autograd (it hands backward() zeros for the gradient of an output that was not used)
// --------------------------------------------------------------------------------------------------------------

struct Act : Function<Act> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input) {
    const at::Tensor x = channels_last(input), y = like_channels_last(x);
    ctx->save_for_backward({x});
    by_dtype(x, [&]<typename T>(T*) {
      parallel(x.numel(), kGrain,
               [&](std::int64_t i, std::int64_t end) { act_forward(data<T>(x) + i, data<T>(y) + i, end - i); });
    });
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor x = ctx->get_saved_variables()[0], g = channels_last(grads[0]), dx = like_channels_last(x);
    by_dtype(x, [&]<typename T>(T*) {
      parallel(x.numel(), kGrain, [&](std::int64_t i, std::int64_t end) {
        act_backward(data<T>(x) + i, data<T>(g) + i, data<T>(dx) + i, end - i);
      });
    });
    return {dx};
  }
};

struct ScaleAct : Function<ScaleAct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& scale) {
    const at::Tensor x = channels_last(input), s = scale.to(at::kFloat).contiguous(), y = like_channels_last(x);
    ctx->save_for_backward({x, s});
    const Rows rows = rows_of(x);
    by_dtype(x, [&]<typename T>(T*) {
      parallel(rows.count, kGrain / rows.channels, [&](std::int64_t i, std::int64_t end) {
        while (i < end) {  // a thread's rows may span samples
          const std::int64_t n = i / rows.per_sample, stop = std::min(end, (n + 1) * rows.per_sample),
                             at = i * rows.channels;
          scale_act_forward(data<T>(x) + at, data<float>(s) + n * rows.channels, data<T>(y) + at, stop - i,
                            rows.channels);
          i = stop;
        }
      });
    });
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &s = saved[1];
    const at::Tensor g = channels_last(grads[0]), dx = like_channels_last(x), ds = at::zeros_like(s);
    const Rows rows = rows_of(x);
    by_dtype(x, [&]<typename T>(T*) {  // one sample is one thread's, so that ds needs no reduction and is deterministic
      parallel(s.size(0), 1, [&](std::int64_t n, std::int64_t end) {
        for (; n < end; ++n) {
          const std::int64_t at = n * rows.per_sample * rows.channels;
          scale_act_backward(data<T>(x) + at, data<float>(s) + n * rows.channels, data<T>(g) + at, data<T>(dx) + at,
                             data<float>(ds) + n * rows.channels, rows.per_sample, rows.channels);
        }
      });
    });
    return {dx, ds};
  }
};

struct PixelNormAct : Function<PixelNormAct> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& input) {
    const at::Tensor x = channels_last(input), xn = like_channels_last(x), y = like_channels_last(x);
    const Rows rows = rows_of(x);
    const at::Tensor inv = at::empty({rows.count}, x.options().dtype(at::kFloat));
    by_dtype(x, [&]<typename T>(T*) {
      parallel(rows.count, kGrain / rows.channels, [&](std::int64_t i, std::int64_t end) {
        const std::int64_t at = i * rows.channels;
        pixel_norm_act_forward(data<T>(x) + at, data<T>(xn) + at, data<T>(y) + at, data<float>(inv) + i, end - i,
                               rows.channels);
      });
    });
    ctx->save_for_backward({xn, inv});
    return {xn, y};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &xn = saved[0], &inv = saved[1];
    const at::Tensor gx = channels_last(grads[0]), gy = channels_last(grads[1]), dx = like_channels_last(xn);
    const Rows rows = rows_of(xn);
    by_dtype(xn, [&]<typename T>(T*) {
      parallel(rows.count, kGrain / rows.channels, [&](std::int64_t i, std::int64_t end) {
        const std::int64_t at = i * rows.channels;
        pixel_norm_act_backward(data<T>(xn) + at, data<float>(inv) + i, data<T>(gx) + at, data<T>(gy) + at,
                                data<T>(dx) + at, end - i, rows.channels);
      });
    });
    return {dx};
  }
};

struct MpSum : Function<MpSum> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& first, const at::Tensor& second, double t) {
    const at::Tensor a = channels_last(first), b = channels_last(second), y = like_channels_last(a);
    const auto [wa, wb] = sum_weights(t);
    ctx->saved_data["t"] = t;
    by_dtype(a, [&, wa = static_cast<float>(wa), wb = static_cast<float>(wb)]<typename T>(T*) {
      parallel(a.numel(), kGrain, [&](std::int64_t i, std::int64_t end) {
        weighted_sum(data<T>(a) + i, data<T>(b) + i, data<T>(y) + i, end - i, wa, wb);
      });
    });
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor g = channels_last(grads[0]);
    const at::Tensor da = like_channels_last(g), db = like_channels_last(g);
    const auto [wa, wb] = sum_weights(ctx->saved_data["t"].toDouble());
    by_dtype(g, [&, wa = static_cast<float>(wa), wb = static_cast<float>(wb)]<typename T>(T*) {
      parallel(g.numel(), kGrain, [&](std::int64_t i, std::int64_t end) {
        weighted_copies(data<T>(g) + i, data<T>(da) + i, data<T>(db) + i, end - i, wa, wb);
      });
    });
    return {da, db, at::Tensor()};
  }
};

}  // namespace

at::Tensor act(const at::Tensor& x) { return use_cpu_kernel(x) ? Act::apply(x) : reference::act(x); }

at::Tensor scale_act(const at::Tensor& x, const at::Tensor& scale) {
  TORCH_CHECK(scale.dim() == 2 && scale.size(0) == x.size(0) && scale.size(1) == x.size(1), "scale_act: scale is ",
              scale.sizes(), " for ", x.sizes());
  return use_cpu_kernel(x) ? ScaleAct::apply(x, scale) : reference::scale_act(x, scale);
}

std::pair<at::Tensor, at::Tensor> pixel_norm_act(const at::Tensor& x) {
  if (!use_cpu_kernel(x)) return reference::pixel_norm_act(x);
  const variable_list out = PixelNormAct::apply(x);
  return {out[0], out[1]};
}

at::Tensor mp_sum(const at::Tensor& a, const at::Tensor& b, double t) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes(), "mp_sum: ", a.toString(), a.sizes(),
              " and ", b.toString(), b.sizes());
  return use_cpu_kernel(a) ? MpSum::apply(a, b, t) : reference::mp_sum(a, b, t);
}

}  // namespace cirrus::kernels
