// Weight normalisation on the CPU: one autograd node for all layers, one pass over each layer's weights each way.
#include "kernels/autograd.h"
#include "kernels/rows.h"
#include "kernels/weight_norm.h"

namespace cirrus::kernels {
namespace {

/// Stored like the activations: channels-last, so that a row of one output channel is contiguous in both.
at::Tensor dense(const at::Tensor& w) { return w.dim() == 4 ? channels_last(w) : w.contiguous(); }

#define CIRRUS_LOOPS(T)                                                                                               \
  CIRRUS_DISPATCH void normalize(const float* w, T* y, float* inv, std::int64_t rows, std::int64_t n) {               \
    for (std::int64_t r = 0; r < rows; ++r, w += n, y += n) {                                                         \
      float ss = 0.f;                                                                                                 \
      _Pragma("omp simd reduction(+ : ss)") for (std::int64_t j = 0; j < n; ++j) ss += w[j] * w[j];                   \
      inv[r] = 1.f / std::sqrt(ss + 1e-12f);                                                                          \
      for (std::int64_t j = 0; j < n; ++j) store(y + j, w[j] * inv[r]);                                               \
    }                                                                                                                 \
  }                                                                                                                   \
  CIRRUS_DISPATCH void normalize_backward(const float* w, const float* inv, const T* g, float* dw, std::int64_t rows, \
                                          std::int64_t n) {                                                           \
    for (std::int64_t r = 0; r < rows; ++r, w += n, g += n, dw += n) {                                                \
      float dot = 0.f;                                                                                                \
      _Pragma("omp simd reduction(+ : dot)") for (std::int64_t j = 0; j < n; ++j) dot += w[j] * load(g + j);          \
      const float k = dot * inv[r] * inv[r];                                                                          \
      for (std::int64_t j = 0; j < n; ++j) dw[j] = inv[r] * (load(g + j) - w[j] * k);                                 \
    }                                                                                                                 \
  }
CIRRUS_LOOPS(float)
CIRRUS_LOOPS(Bf16)
#undef CIRRUS_LOOPS

CIRRUS_DISPATCH void force_unit(float* w, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, w += n) {
    float ss = 0.f;
    for (std::int64_t j = 0; j < n; ++j) ss += w[j] * w[j];
    const float k = 1.f / std::sqrt(ss / static_cast<float>(n) + 1e-12f);
    for (std::int64_t j = 0; j < n; ++j) w[j] *= k;
  }
}

struct NormalizeWeights : Function<NormalizeWeights> {
  static variable_list forward(AutogradContext* ctx, at::TensorList weights, std::int64_t dtype_code) {
    const auto dtype = static_cast<at::ScalarType>(dtype_code);
    variable_list out, saved;
    for (const at::Tensor& weight : weights) {
      const at::Tensor w = dense(weight), y = at::empty_like(w, w.options().dtype(dtype), at::MemoryFormat::Preserve);
      const at::Tensor inv = at::empty({w.size(0)}, w.options());
      const std::int64_t n = w.numel() / w.size(0);
      by_dtype(y, [&]<typename T>(T*) {
        parallel(w.size(0), 32768 / n, [&](std::int64_t i, std::int64_t end) {
          normalize(data<float>(w) + i * n, data<T>(y) + i * n, data<float>(inv) + i, end - i, n);
        });
      });
      out.push_back(y);
      saved.push_back(w);
      saved.push_back(inv);
    }
    ctx->save_for_backward(saved);
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    variable_list out;
    for (std::size_t k = 0; k < grads.size(); ++k) {
      const at::Tensor &w = saved[2 * k], &inv = saved[2 * k + 1];
      const at::Tensor g = dense(grads[k]), dw = at::empty_like(w, w.options(), at::MemoryFormat::Preserve);
      const std::int64_t n = w.numel() / w.size(0);
      by_dtype(g, [&]<typename T>(T*) {
        parallel(w.size(0), 32768 / n, [&](std::int64_t i, std::int64_t end) {
          normalize_backward(data<float>(w) + i * n, data<float>(inv) + i, data<T>(g) + i * n, data<float>(dw) + i * n,
                             end - i, n);
        });
      });
      out.push_back(dw);
    }
    out.emplace_back();  // dtype
    return out;
  }
};

}  // namespace

std::vector<at::Tensor> normalize_weights(const std::vector<at::Tensor>& w, at::ScalarType dtype) {
  const bool fused = !w.empty() && w[0].device().is_cpu() && w[0].scalar_type() == at::kFloat &&
                     (dtype == at::kFloat || dtype == at::kBFloat16);
  return fused ? NormalizeWeights::apply(at::TensorList(w), static_cast<std::int64_t>(dtype))
               : reference::normalize_weights(w, dtype);
}

void force_unit_weights(const std::vector<at::Tensor>& weights) {
  c10::NoGradGuard no_grad;
  for (const at::Tensor& w : weights) {
    if (w.device().is_cpu() && w.scalar_type() == at::kFloat && w.is_non_overlapping_and_dense() &&
        w.stride(0) == w.numel() / w.size(0)) {
      const std::int64_t n = w.numel() / w.size(0);
      force_unit(data<float>(w), w.size(0), n);
    } else {
      std::vector<std::int64_t> shape(static_cast<std::size_t>(w.dim()), 1);
      shape[0] = w.size(0);
      w.div_(w.flatten(1).square().mean(1).add(1e-12).sqrt().view(shape));
    }
  }
}

}  // namespace cirrus::kernels
