// Group normalisation on CUDA tensors: memory for results and sums, and entries in torch's dispatcher.
#include <torch/library.h>

#include "device/cuda/tensors.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu.
void run_group_norm(Element type, bool wide, const void* x, const float* weight, const float* bias, void* y,
                    float* mean, float* inv, float* sums, std::int64_t parts, std::int64_t samples, std::int64_t rows,
                    std::int64_t channels, std::int64_t groups, double epsilon, bool silu, CudaStream stream);
void run_group_norm_backward(Element type, bool wide, const void* x, const float* weight, const float* bias,
                             const float* mean, const float* inv, const void* g, void* dx, float* dweight, float* dbias,
                             float* sums, float* means, std::int64_t parts, std::int64_t samples, std::int64_t rows,
                             std::int64_t channels, std::int64_t groups, bool silu, CudaStream stream);

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm(const at::Tensor& input, std::int64_t groups,
                                                          const at::Tensor& weight, const at::Tensor& bias, double eps,
                                                          bool silu) {
  const Launching on(input);
  const at::Tensor x = channels_last(input), w = float_contiguous(weight), b = float_contiguous(bias),
                   y = like_channels_last(x);
  const std::int64_t n = x.size(0), channels = x.size(1), rows = x.size(2) * x.size(3),
                     parts = reduction_parts(rows, n);
  const at::Tensor mean = at::empty({n * groups}, w.options()), inv = at::empty_like(mean),
                   sums = at::empty({n, parts, 2, channels}, w.options());
  const Element type = element_of(x);
  run_group_norm(type, wide_rows(type, {channels}, {x, w, b, y, sums}), x.data_ptr(), w.data_ptr<float>(),
                 b.data_ptr<float>(), y.data_ptr(), mean.data_ptr<float>(), inv.data_ptr<float>(),
                 sums.data_ptr<float>(), parts, n, rows, channels, groups, eps, silu, on);
  on.check();
  return {y, mean, inv};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_backward(const at::Tensor& input, std::int64_t groups,
                                                                   const at::Tensor& weight, const at::Tensor& bias,
                                                                   const at::Tensor& mean_in, const at::Tensor& inv_in,
                                                                   bool silu, const at::Tensor& grad) {
  const Launching on(input);
  const at::Tensor x = channels_last(input), g = channels_last(grad.to(x.scalar_type())), w = float_contiguous(weight),
                   b = float_contiguous(bias), mean = float_contiguous(mean_in), inv = float_contiguous(inv_in),
                   dx = like_channels_last(x), dweight = at::empty_like(w), dbias = at::empty_like(b);
  const std::int64_t n = x.size(0), channels = x.size(1), rows = x.size(2) * x.size(3),
                     parts = reduction_parts(rows, n);
  const at::Tensor sums = at::empty({n, parts, 2, channels}, w.options()),
                   means = at::empty({n * groups, 2}, w.options());
  const Element type = element_of(x);
  run_group_norm_backward(type, wide_rows(type, {channels}, {x, w, b, g, dx, sums}), x.data_ptr(), w.data_ptr<float>(),
                          b.data_ptr<float>(), mean.data_ptr<float>(), inv.data_ptr<float>(), g.data_ptr(),
                          dx.data_ptr(), dweight.data_ptr<float>(), dbias.data_ptr<float>(), sums.data_ptr<float>(),
                          means.data_ptr<float>(), parts, n, rows, channels, groups, silu, on);
  on.check();
  return {dx, dweight, dbias};
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) {
  m.impl("group_norm", group_norm);
  m.impl("group_norm_backward", group_norm_backward);
}

}  // namespace cirrus::kernels::cuda
