// Phases in their places on CUDA tensors: memory for results, and entries in torch's dispatcher.
#include <torch/library.h>

#include <limits>

#include "device/cuda/tensors.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu; lines and width are the fine tensor's.
void run_phase_join(Element type, bool wide, const void* phases, const void* fine, const float* scale, void* y,
                    void* sum, std::int64_t samples, std::int64_t lines, std::int64_t width, std::int64_t channels,
                    CudaStream stream);
void run_phase_join_backward(Element type, bool wide, const void* sum, const float* scale, const void* g, void* dphases,
                             void* dfine, float* dscale, float* parts, std::int64_t count, std::int64_t samples,
                             std::int64_t lines, std::int64_t width, std::int64_t channels, CudaStream stream);

namespace {

void check_size(const at::Tensor& x) {
  TORCH_CHECK(x.size(2) * x.size(3) < std::numeric_limits<std::int32_t>::max(), "phase_sum_scale_act: a sample of ",
              x.sizes(), " has too many pixels");
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> phase_sum_scale_act(const at::Tensor& phases_in, const at::Tensor& fine_in,
                                                       const at::Tensor& scale) {
  const Launching on(fine_in);
  check_size(fine_in);
  const at::Tensor phases = channels_last(phases_in), fine = channels_last(fine_in), s = float_contiguous(scale),
                   y = like_channels_last(fine), sum = like_channels_last(fine);
  const Element type = element_of(fine);
  run_phase_join(type, wide_rows(type, {fine.size(1)}, {phases, fine, s, y, sum}), phases.data_ptr(), fine.data_ptr(),
                 s.data_ptr<float>(), y.data_ptr(), sum.data_ptr(), fine.size(0), fine.size(2), fine.size(3),
                 fine.size(1), on);
  on.check();
  return {y, sum};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> phase_sum_scale_act_backward(const at::Tensor& sum_in,
                                                                            const at::Tensor& scale,
                                                                            const at::Tensor& grad) {
  const Launching on(sum_in);
  check_size(sum_in);
  const at::Tensor sum = channels_last(sum_in), s = float_contiguous(scale),
                   g = channels_last(grad.to(sum.scalar_type()));
  const std::int64_t n = sum.size(0), c = sum.size(1), lines = sum.size(2), width = sum.size(3),
                     count = reduction_parts(lines * width, n);
  // Each phase lies on h x w of the (h + 1) x (w + 1) places of the convolution: the others get no gradient.
  const at::Tensor dfine = like_channels_last(sum), ds = at::empty_like(s),
                   dphases = at::zeros({n, lines / 2 + 1, width / 2 + 1, 4 * c}, sum.options()).permute({0, 3, 1, 2}),
                   parts = count > 1 ? at::empty({n, count, c}, s.options()) : ds;
  const Element type = element_of(sum);
  run_phase_join_backward(type, wide_rows(type, {c}, {sum, s, g, dphases, dfine, ds, parts}), sum.data_ptr(),
                          s.data_ptr<float>(), g.data_ptr(), dphases.data_ptr(), dfine.data_ptr(), ds.data_ptr<float>(),
                          parts.data_ptr<float>(), count, n, lines, width, c, on);
  on.check();
  return {dphases, dfine, ds};
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) {
  m.impl("phase_sum_scale_act", phase_sum_scale_act);
  m.impl("phase_sum_scale_act_backward", phase_sum_scale_act_backward);
}

}  // namespace cirrus::kernels::cuda
