// The pointwise network operators on CUDA tensors: checks, memory for results, and entries in torch's dispatcher.
#include <torch/library.h>

#include "device/cuda/tensors.h"
#include "kernels/activation.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

static_assert(device::kHardswishRms == kernels::kHardswishRms);

// In cuda.cu.
void run_act(Element type, bool wide, const void* x, void* y, std::int64_t n, CudaStream stream);
void run_act_backward(Element type, bool wide, const void* x, const void* g, void* dx, std::int64_t n,
                      CudaStream stream);
void run_weighted_sum(Element type, bool wide, const void* a, const void* b, void* y, float wa, float wb,
                      std::int64_t n, CudaStream stream);
void run_weighted_copies(Element type, bool wide, const void* g, void* da, void* db, float wa, float wb, std::int64_t n,
                         CudaStream stream);
void run_scale_act(Element type, bool wide, const void* x, const float* scale, void* y, std::int64_t samples,
                   std::int64_t rows, std::int64_t channels, CudaStream stream);
void run_scale_act_backward(Element type, bool wide, const void* x, const float* scale, const void* g, void* dx,
                            float* dscale, float* parts, std::int64_t count, std::int64_t samples, std::int64_t rows,
                            std::int64_t channels, CudaStream stream);
void run_pixel_norm_act(Element type, bool wide, const void* x, void* normalised, void* y, float* inv,
                        std::int64_t rows, std::int64_t channels, float epsilon, CudaStream stream);
void run_pixel_norm_act_backward(Element type, bool wide, const void* normalised, const float* inv,
                                 const void* g_normalised, const void* g_act, void* dx, std::int64_t rows,
                                 std::int64_t channels, CudaStream stream);

at::Tensor act(const at::Tensor& input) {
  const Launching on(input);
  const at::Tensor x = channels_last(input), y = like_channels_last(x);
  run_act(element_of(x), aligned({x, y}), x.data_ptr(), y.data_ptr(), x.numel(), on);
  on.check();
  return y;
}

at::Tensor act_backward(const at::Tensor& input, const at::Tensor& grad) {
  const Launching on(input);
  const at::Tensor x = channels_last(input), g = channels_last(grad.to(x.scalar_type())), dx = like_channels_last(x);
  run_act_backward(element_of(x), aligned({x, g, dx}), x.data_ptr(), g.data_ptr(), dx.data_ptr(), x.numel(), on);
  on.check();
  return dx;
}

at::Tensor scale_act(const at::Tensor& input, const at::Tensor& scale) {
  const Launching on(input);
  const at::Tensor x = channels_last(input), s = float_contiguous(scale), y = like_channels_last(x);
  const Element type = element_of(x);
  run_scale_act(type, wide_rows(type, {x.size(1)}, {x, s, y}), x.data_ptr(), s.data_ptr<float>(), y.data_ptr(),
                x.size(0), x.size(2) * x.size(3), x.size(1), on);
  on.check();
  return y;
}

std::tuple<at::Tensor, at::Tensor> scale_act_backward(const at::Tensor& input, const at::Tensor& scale,
                                                      const at::Tensor& grad) {
  const Launching on(input);
  const at::Tensor x = channels_last(input), s = float_contiguous(scale), g = channels_last(grad.to(x.scalar_type())),
                   dx = like_channels_last(x), ds = at::empty_like(s);
  const Element type = element_of(x);
  const std::int64_t samples = x.size(0), channels = x.size(1), rows = x.size(2) * x.size(3),
                     count = reduction_parts(rows, samples);
  const at::Tensor parts = count > 1 ? at::empty({samples, count, channels}, s.options()) : ds;
  run_scale_act_backward(type, wide_rows(type, {channels}, {x, s, g, dx, ds, parts}), x.data_ptr(), s.data_ptr<float>(),
                         g.data_ptr(), dx.data_ptr(), ds.data_ptr<float>(), parts.data_ptr<float>(), count, samples,
                         rows, channels, on);
  on.check();
  return {dx, ds};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> pixel_norm_act(const at::Tensor& input) {
  const Launching on(input);
  const at::Tensor x = channels_last(input), normalised = like_channels_last(x), y = like_channels_last(x);
  const std::int64_t rows = x.size(0) * x.size(2) * x.size(3), channels = x.size(1);
  const at::Tensor inv = at::empty({rows}, x.options().dtype(at::kFloat));
  const Element type = element_of(x);
  run_pixel_norm_act(type, wide_rows(type, {channels}, {x, normalised, y}), x.data_ptr(), normalised.data_ptr(),
                     y.data_ptr(), inv.data_ptr<float>(), rows, channels,
                     static_cast<float>(kPixelNormEpsilon * kPixelNormEpsilon), on);
  on.check();
  return {normalised, y, inv};
}

at::Tensor pixel_norm_act_backward(const at::Tensor& normalised_in, const at::Tensor& inv,
                                   const at::Tensor& grad_normalised, const at::Tensor& grad_act) {
  const Launching on(normalised_in);
  const at::Tensor normalised = channels_last(normalised_in), scale = float_contiguous(inv),
                   gx = channels_last(grad_normalised.to(normalised.scalar_type())),
                   gy = channels_last(grad_act.to(normalised.scalar_type())), dx = like_channels_last(normalised);
  const Element type = element_of(normalised);
  const std::int64_t channels = normalised.size(1);
  run_pixel_norm_act_backward(type, wide_rows(type, {channels}, {normalised, gx, gy, dx}), normalised.data_ptr(),
                              scale.data_ptr<float>(), gx.data_ptr(), gy.data_ptr(), dx.data_ptr(), scale.numel(),
                              channels, on);
  on.check();
  return dx;
}

at::Tensor mp_sum(const at::Tensor& first, const at::Tensor& second, double t) {
  const Launching on(first);
  const at::Tensor a = channels_last(first), b = channels_last(second), y = like_channels_last(a);
  const auto [wa, wb] = sum_weights(t);
  run_weighted_sum(element_of(a), aligned({a, b, y}), a.data_ptr(), b.data_ptr(), y.data_ptr(), static_cast<float>(wa),
                   static_cast<float>(wb), a.numel(), on);
  on.check();
  return y;
}

std::tuple<at::Tensor, at::Tensor> mp_sum_backward(const at::Tensor& grad, double t) {
  const Launching on(grad);
  const at::Tensor g = channels_last(grad), da = like_channels_last(g), db = like_channels_last(g);
  const auto [wa, wb] = sum_weights(t);
  run_weighted_copies(element_of(g), aligned({g, da, db}), g.data_ptr(), da.data_ptr(), db.data_ptr(),
                      static_cast<float>(wa), static_cast<float>(wb), g.numel(), on);
  on.check();
  return {da, db};
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) {
  m.impl("act", act);
  m.impl("act_backward", act_backward);
  m.impl("scale_act", scale_act);
  m.impl("scale_act_backward", scale_act_backward);
  m.impl("pixel_norm_act", pixel_norm_act);
  m.impl("pixel_norm_act_backward", pixel_norm_act_backward);
  m.impl("mp_sum", mp_sum);
  m.impl("mp_sum_backward", mp_sum_backward);
}

}  // namespace cirrus::kernels::cuda
