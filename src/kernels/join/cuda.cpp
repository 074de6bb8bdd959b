// The decoder's join on CUDA tensors: memory for results, and entries in torch's dispatcher.
#include <torch/library.h>

#include "device/cuda/tensors.h"
#include "kernels/activation.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu; lines and width are those of the tensor that threads go over: the fine one, backward the coarse one.
void run_cat_act(Element type, bool wide, const void* coarse, const void* fine, void* y, std::int64_t lines,
                 std::int64_t width, int factor, std::int64_t ca, std::int64_t cb, float wa, float wb,
                 CudaStream stream);
void run_cat_act_backward(Element type, bool wide, const void* coarse, const void* fine, const void* g, void* dcoarse,
                          void* dfine, std::int64_t lines, std::int64_t width, int factor, std::int64_t ca,
                          std::int64_t cb, float wa, float wb, CudaStream stream);
void run_upsample_sum(Element type, bool wide, const void* coarse, const void* fine, const void* other, void* y,
                      std::int64_t lines, std::int64_t width, int factor, std::int64_t channels, float kc, float kf,
                      float ko, CudaStream stream);
void run_upsample_sum_backward(Element type, bool wide, const void* g, void* dcoarse, void* dfine, void* dother,
                               std::int64_t lines, std::int64_t width, int factor, std::int64_t channels, float kc,
                               float kf, float ko, CudaStream stream);

namespace {

int factor_of(const at::Tensor& coarse, const at::Tensor& fine) {
  return coarse.size(2) == fine.size(2) ? 1 : 2;  // nothing else passes the operator's check
}
std::int64_t lines_of(const at::Tensor& x) { return x.size(0) * x.size(2); }
std::array<float, 3> weights_of(at::ArrayRef<double> k) {
  TORCH_CHECK(k.size() == 3, "upsample_sum wants three weights, got ", k.size());
  return {static_cast<float>(k[0]), static_cast<float>(k[1]), static_cast<float>(k[2])};
}

}  // namespace

at::Tensor upsample_cat_act(const at::Tensor& coarse, const at::Tensor& fine) {
  const Launching on(fine);
  const at::Tensor a = channels_last(coarse), b = channels_last(fine);
  const std::int64_t ca = a.size(1), cb = b.size(1);
  const at::Tensor y =
      at::empty({b.size(0), ca + cb, b.size(2), b.size(3)}, b.options(), at::MemoryFormat::ChannelsLast);
  const auto [wa, wb] = cat_weights(ca, cb);
  const Element type = element_of(b);
  run_cat_act(type, wide_rows(type, {ca, cb}, {a, b, y}), a.data_ptr(), b.data_ptr(), y.data_ptr(), lines_of(b),
              b.size(3), factor_of(a, b), ca, cb, static_cast<float>(wa), static_cast<float>(wb), on);
  on.check();
  return y;
}

std::tuple<at::Tensor, at::Tensor> upsample_cat_act_backward(const at::Tensor& coarse, const at::Tensor& fine,
                                                             const at::Tensor& grad) {
  const Launching on(fine);
  const at::Tensor a = channels_last(coarse), b = channels_last(fine), g = channels_last(grad.to(b.scalar_type())),
                   da = like_channels_last(a), db = like_channels_last(b);
  const std::int64_t ca = a.size(1), cb = b.size(1);
  const auto [wa, wb] = cat_weights(ca, cb);
  const Element type = element_of(b);
  run_cat_act_backward(type, wide_rows(type, {ca, cb}, {a, b, g, da, db}), a.data_ptr(), b.data_ptr(), g.data_ptr(),
                       da.data_ptr(), db.data_ptr(), lines_of(a), a.size(3), factor_of(a, b), ca, cb,
                       static_cast<float>(wa), static_cast<float>(wb), on);
  on.check();
  return {da, db};
}

at::Tensor upsample_sum(const at::Tensor& coarse, const at::Tensor& fine, const at::Tensor& other,
                        at::ArrayRef<double> k) {
  const Launching on(fine);
  const at::Tensor a = channels_last(coarse), b = channels_last(fine), o = channels_last(other),
                   y = like_channels_last(b);
  const std::array<float, 3> w = weights_of(k);
  const Element type = element_of(b);
  run_upsample_sum(type, wide_rows(type, {b.size(1)}, {a, b, o, y}), a.data_ptr(), b.data_ptr(), o.data_ptr(),
                   y.data_ptr(), lines_of(b), b.size(3), factor_of(a, b), b.size(1), w[0], w[1], w[2], on);
  on.check();
  return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> upsample_sum_backward(const at::Tensor& grad, std::int64_t factor,
                                                                     at::ArrayRef<double> k) {
  const Launching on(grad);
  TORCH_CHECK(factor == 1 || factor == 2, "upsample_sum: factor ", factor);
  const at::Tensor g = channels_last(grad), db = like_channels_last(g), dother = like_channels_last(g),
                   da = at::empty({g.size(0), g.size(1), g.size(2) / factor, g.size(3) / factor}, g.options(),
                                  at::MemoryFormat::ChannelsLast);
  const std::array<float, 3> w = weights_of(k);
  const Element type = element_of(g);
  run_upsample_sum_backward(type, wide_rows(type, {g.size(1)}, {g, da, db, dother}), g.data_ptr(), da.data_ptr(),
                            db.data_ptr(), dother.data_ptr(), lines_of(da), da.size(3), static_cast<int>(factor),
                            g.size(1), w[0], w[1], w[2], on);
  on.check();
  return {da, db, dother};
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) {
  m.impl("upsample_cat_act", upsample_cat_act);
  m.impl("upsample_cat_act_backward", upsample_cat_act_backward);
  m.impl("upsample_sum", upsample_sum);
  m.impl("upsample_sum_backward", upsample_sum_backward);
}

}  // namespace cirrus::kernels::cuda
