// The pointwise network operators on the CPU: one pass over rows of channels each way, float32 or bfloat16 storage,
// arithmetic in float32, vectorised by the compiler for the processor found at run time.
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/activation.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr float kGain = static_cast<float>(1.0 / kHardswishRms);
constexpr std::int64_t kGrain = 16384;  // values a thread takes at least

inline float hardswish(float x) {
  const float r = std::min(std::max(x + 3.f, 0.f), 6.f);
  return x * r * (kGain / 6.f);
}
/// Derivative of hardswish(x): 0 below -3, 1 above 3, (2x + 3)/6 between.
inline float hardswish_slope(float x) {
  const float inner = (2.f * x + 3.f) * (1.f / 6.f);
  const float v = x < -3.f ? 0.f : (x > 3.f ? 1.f : inner);
  return v * kGain;
}

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
  CIRRUS_DISPATCH void cat_act_forward(const T* a, const T* b, T* x, T* y, std::int64_t rows, std::int64_t ca,         \
                                       std::int64_t cb, float wa, float wb) {                                          \
    for (std::int64_t r = 0; r < rows; ++r) {                                                                          \
      T *xr = x + r * (ca + cb), *yr = y + r * (ca + cb);                                                              \
      for (std::int64_t j = 0; j < ca; ++j) {                                                                          \
        const float v = load(a + r * ca + j) * wa;                                                                     \
        store(xr + j, v);                                                                                              \
        store(yr + j, hardswish(v));                                                                                   \
      }                                                                                                                \
      for (std::int64_t j = 0; j < cb; ++j) {                                                                          \
        const float v = load(b + r * cb + j) * wb;                                                                     \
        store(xr + ca + j, v);                                                                                         \
        store(yr + ca + j, hardswish(v));                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  CIRRUS_DISPATCH void cat_act_backward(const T* x, const T* gx, const T* gy, T* da, T* db, std::int64_t rows,         \
                                        std::int64_t ca, std::int64_t cb, float wa, float wb) {                        \
    for (std::int64_t r = 0; r < rows; ++r, x += ca + cb, gx += ca + cb, gy += ca + cb) {                              \
      for (std::int64_t j = 0; j < ca; ++j)                                                                            \
        store(da + r * ca + j, (load(gx + j) + load(gy + j) * hardswish_slope(load(x + j))) * wa);                     \
      for (std::int64_t j = 0; j < cb; ++j)                                                                            \
        store(db + r * cb + j, (load(gx + ca + j) + load(gy + ca + j) * hardswish_slope(load(x + ca + j))) * wb);      \
    }                                                                                                                  \
  }                                                                                                                    \
  CIRRUS_DISPATCH void weighted_sum(const T* a, const T* b, T* y, std::int64_t n, float wa, float wb) {                \
    for (std::int64_t i = 0; i < n; ++i) store(y + i, load(a + i) * wa + load(b + i) * wb);                            \
  }                                                                                                                    \
  CIRRUS_DISPATCH void scaled(const T* x, T* y, std::int64_t n, float w) {                                             \
    for (std::int64_t i = 0; i < n; ++i) store(y + i, load(x + i) * w);                                                \
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

struct CatAct : Function<CatAct> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& first, const at::Tensor& second) {
    const at::Tensor a = channels_last(first), b = channels_last(second);
    const std::int64_t ca = a.size(1), cb = b.size(1);
    const at::Tensor x =
        at::empty({a.size(0), ca + cb, a.size(2), a.size(3)}, a.options(), at::MemoryFormat::ChannelsLast);
    const at::Tensor y = like_channels_last(x);
    const auto [wa, wb] = cat_weights(ca, cb);
    by_dtype(x, [&, wa = static_cast<float>(wa), wb = static_cast<float>(wb)]<typename T>(T*) {
      parallel(rows_of(x).count, kGrain / (ca + cb), [&](std::int64_t i, std::int64_t end) {
        cat_act_forward(data<T>(a) + i * ca, data<T>(b) + i * cb, data<T>(x) + i * (ca + cb),
                        data<T>(y) + i * (ca + cb), end - i, ca, cb, wa, wb);
      });
    });
    ctx->save_for_backward({x});
    ctx->saved_data["ca"] = ca;
    return {x, y};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor x = ctx->get_saved_variables()[0];
    const at::Tensor gx = channels_last(grads[0]), gy = channels_last(grads[1]);
    const std::int64_t ca = ctx->saved_data["ca"].toInt(), cb = x.size(1) - ca;
    const auto make = [&](std::int64_t c) {
      return at::empty({x.size(0), c, x.size(2), x.size(3)}, x.options(), at::MemoryFormat::ChannelsLast);
    };
    const at::Tensor da = make(ca), db = make(cb);
    const auto [wa, wb] = cat_weights(ca, cb);
    by_dtype(x, [&, wa = static_cast<float>(wa), wb = static_cast<float>(wb)]<typename T>(T*) {
      parallel(rows_of(x).count, kGrain / (ca + cb), [&](std::int64_t i, std::int64_t end) {
        const std::int64_t at = i * (ca + cb);
        cat_act_backward(data<T>(x) + at, data<T>(gx) + at, data<T>(gy) + at, data<T>(da) + i * ca,
                         data<T>(db) + i * cb, end - i, ca, cb, wa, wb);
      });
    });
    return {da, db};
  }
};

struct MpSum : Function<MpSum> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& first, const at::Tensor& second, double t) {
    const at::Tensor a = channels_last(first), b = channels_last(second), y = like_channels_last(a);
    const double norm = 1.0 / std::sqrt((1 - t) * (1 - t) + t * t);
    ctx->saved_data["wa"] = (1 - t) * norm;
    ctx->saved_data["wb"] = t * norm;
    by_dtype(a, [&]<typename T>(T*) {
      parallel(a.numel(), kGrain, [&](std::int64_t i, std::int64_t end) {
        weighted_sum(data<T>(a) + i, data<T>(b) + i, data<T>(y) + i, end - i, static_cast<float>((1 - t) * norm),
                     static_cast<float>(t * norm));
      });
    });
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor g = channels_last(grads[0]);
    const auto times = [&](const char* key) {
      const at::Tensor d = like_channels_last(g);
      const float w = static_cast<float>(ctx->saved_data[key].toDouble());
      by_dtype(g, [&]<typename T>(T*) {
        parallel(g.numel(), kGrain,
                 [&](std::int64_t i, std::int64_t end) { scaled(data<T>(g) + i, data<T>(d) + i, end - i, w); });
      });
      return d;
    };
    return {times("wa"), times("wb"), at::Tensor()};
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

std::pair<at::Tensor, at::Tensor> cat_act(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(
      a.scalar_type() == b.scalar_type() && a.size(0) == b.size(0) && a.size(2) == b.size(2) && a.size(3) == b.size(3),
      "cat_act: ", a.toString(), a.sizes(), " and ", b.toString(), b.sizes());
  if (!use_cpu_kernel(a)) return reference::cat_act(a, b);
  const variable_list out = CatAct::apply(a, b);
  return {out[0], out[1]};
}

at::Tensor mp_sum(const at::Tensor& a, const at::Tensor& b, double t) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes(), "mp_sum: ", a.toString(), a.sizes(),
              " and ", b.toString(), b.sizes());
  return use_cpu_kernel(a) ? MpSum::apply(a, b, t) : reference::mp_sum(a, b, t);
}

}  // namespace cirrus::kernels
