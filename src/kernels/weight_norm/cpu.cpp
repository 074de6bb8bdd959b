// Weight normalisation on the CPU: one pass over each layer's weights each way.
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

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

}  // namespace

namespace cpu {

std::tuple<std::vector<at::Tensor>, std::vector<at::Tensor>> normalize_weights(at::TensorList weights,
                                                                               at::ScalarType dtype) {
  std::vector<at::Tensor> effective, inverse;
  for (const at::Tensor& w : weights) {
    const at::Tensor y = at::empty_like(w, w.options().dtype(dtype), at::MemoryFormat::Preserve);
    const at::Tensor inv = at::empty({w.size(0)}, w.options());
    const std::int64_t n = w.numel() / w.size(0);
    by_dtype(y, [&]<typename T>(T*) {
      parallel(w.size(0), 32768 / n, [&](std::int64_t i, std::int64_t end) {
        normalize(data<float>(w) + i * n, data<T>(y) + i * n, data<float>(inv) + i, end - i, n);
      });
    });
    effective.push_back(y);
    inverse.push_back(inv);
  }
  return {effective, inverse};
}

std::vector<at::Tensor> normalize_weights_backward(at::TensorList weights, at::TensorList inverse,
                                                   at::TensorList grads) {
  std::vector<at::Tensor> out;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const at::Tensor &w = weights[k], &g = grads[k], dw = at::empty_like(w, w.options(), at::MemoryFormat::Preserve);
    const std::int64_t n = w.numel() / w.size(0);
    by_dtype(g, [&]<typename T>(T*) {
      parallel(w.size(0), 32768 / n, [&](std::int64_t i, std::int64_t end) {
        normalize_backward(data<float>(w) + i * n, data<float>(inverse[k]) + i, data<T>(g) + i * n,
                           data<float>(dw) + i * n, end - i, n);
      });
    });
    out.push_back(dw);
  }
  return out;
}

void force_unit_weights(at::TensorList weights) {
  for (const at::Tensor& w : weights) force_unit(data<float>(w), w.size(0), w.numel() / w.size(0));
}

}  // namespace cpu
}  // namespace cirrus::kernels
