// The decoder's join: checks, gradients, and its entries in torch's dispatcher.
#include <torch/library.h>

#include "kernels/autograd.h"
#include "kernels/dispatch.h"
#include "kernels/join.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace cpu {
at::Tensor upsample_cat_act(const at::Tensor& coarse, const at::Tensor& fine);
std::tuple<at::Tensor, at::Tensor> upsample_cat_act_backward(const at::Tensor& coarse, const at::Tensor& fine,
                                                             const at::Tensor& grad);
at::Tensor upsample_sum(const at::Tensor& coarse, const at::Tensor& fine, const at::Tensor& other,
                        at::ArrayRef<double> k);
std::tuple<at::Tensor, at::Tensor, at::Tensor> upsample_sum_backward(const at::Tensor& grad, std::int64_t factor,
                                                                     at::ArrayRef<double> k);
}  // namespace cpu

namespace {

TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def("upsample_cat_act(Tensor coarse, Tensor fine) -> Tensor");
  m.def("upsample_cat_act_backward(Tensor coarse, Tensor fine, Tensor grad) -> (Tensor, Tensor)");
  m.def("upsample_sum(Tensor coarse, Tensor fine, Tensor other, float[] k) -> Tensor");
  m.def("upsample_sum_backward(Tensor grad, int factor, float[] k) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cirrus, CPU, m) {
  m.impl("upsample_cat_act", cpu::upsample_cat_act);
  m.impl("upsample_cat_act_backward", cpu::upsample_cat_act_backward);
  m.impl("upsample_sum", cpu::upsample_sum);
  m.impl("upsample_sum_backward", cpu::upsample_sum_backward);
}

const auto& upsample_cat_act_kernel() {
  static const FusedOperator<decltype(cpu::upsample_cat_act)> kernel("cirrus::upsample_cat_act");
  return kernel;
}
const auto& upsample_sum_kernel() {
  static const FusedOperator<decltype(cpu::upsample_sum)> kernel("cirrus::upsample_sum");
  return kernel;
}

struct UpsampleCatAct : Function<UpsampleCatAct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& coarse, const at::Tensor& fine) {
    const at::Tensor a = channels_last(coarse), b = channels_last(fine);
    ctx->save_for_backward({a, b});
    return upsample_cat_act_kernel()(a, b);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::upsample_cat_act_backward)> kernel("cirrus::upsample_cat_act_backward");
    const variable_list saved = ctx->get_saved_variables();
    const auto [da, db] = kernel(saved[0], saved[1], channels_last(grads[0]));
    return {da, db};
  }
};

struct UpsampleSum : Function<UpsampleSum> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& coarse, const at::Tensor& fine,
                            const at::Tensor& other, double ka, double kb, double ko) {
    const std::vector<double> k{ka, kb, ko};
    ctx->saved_data["k"] = k;
    ctx->saved_data["factor"] = fine.size(2) / coarse.size(2);
    return upsample_sum_kernel()(channels_last(coarse), channels_last(fine), channels_last(other), k);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::upsample_sum_backward)> kernel("cirrus::upsample_sum_backward");
    const auto [da, db, dother] =
        kernel(channels_last(grads[0]), ctx->saved_data["factor"].toInt(), ctx->saved_data["k"].toDoubleVector());
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
  return upsample_cat_act_kernel().takes(fine) ? UpsampleCatAct::apply(coarse, fine)
                                               : reference::upsample_cat_act(coarse, fine);
}

at::Tensor upsample_sum(const at::Tensor& coarse, const at::Tensor& fine, const at::Tensor& other,
                        const std::array<double, 3>& k) {
  check(coarse, fine, "upsample_sum");
  TORCH_CHECK(
      other.sizes() == fine.sizes() && other.scalar_type() == fine.scalar_type() && coarse.size(1) == fine.size(1),
      "upsample_sum: ", coarse.sizes(), ", ", fine.sizes(), " and ", other.toString(), other.sizes());
  return upsample_sum_kernel().takes(fine) ? UpsampleSum::apply(coarse, fine, other, k[0], k[1], k[2])
                                           : reference::upsample_sum(coarse, fine, other, k);
}

}  // namespace cirrus::kernels
