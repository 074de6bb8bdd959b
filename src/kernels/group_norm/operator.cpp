// Group normalisation: checks, gradients, and its entries in torch's dispatcher.
#include <torch/library.h>

#include "kernels/autograd.h"
#include "kernels/dispatch.h"
#include "kernels/group_norm.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace cpu {
std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm(const at::Tensor& x, std::int64_t groups,
                                                          const at::Tensor& weight, const at::Tensor& bias, double eps,
                                                          bool silu);
std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_backward(const at::Tensor& x, std::int64_t groups,
                                                                   const at::Tensor& weight, const at::Tensor& bias,
                                                                   const at::Tensor& mean, const at::Tensor& inv,
                                                                   bool silu, const at::Tensor& grad);
}  // namespace cpu

namespace {

TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def(
      "group_norm(Tensor x, int groups, Tensor weight, Tensor bias, float eps, bool silu)"
      " -> (Tensor, Tensor, Tensor)");
  m.def(
      "group_norm_backward(Tensor x, int groups, Tensor weight, Tensor bias, Tensor mean, Tensor inv, bool silu,"
      " Tensor grad) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cirrus, CPU, m) {
  m.impl("group_norm", cpu::group_norm);
  m.impl("group_norm_backward", cpu::group_norm_backward);
}

const auto& group_norm_kernel() {
  static const FusedOperator<decltype(cpu::group_norm)> kernel("cirrus::group_norm");
  return kernel;
}

struct GroupNorm : Function<GroupNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, std::int64_t groups,
                            const at::Tensor& weight, const at::Tensor& bias, double eps, bool silu) {
    const at::Tensor x = channels_last(input), w = weight.to(at::kFloat).contiguous(),
                     b = bias.to(at::kFloat).contiguous();
    const auto [y, mean, inv] = group_norm_kernel()(x, groups, w, b, eps, silu);
    ctx->save_for_backward({x, w, b, mean, inv});
    ctx->saved_data["groups"] = groups;
    ctx->saved_data["silu"] = silu;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::group_norm_backward)> kernel("cirrus::group_norm_backward");
    const variable_list saved = ctx->get_saved_variables();
    const auto [dx, dweight, dbias] = kernel(saved[0], ctx->saved_data["groups"].toInt(), saved[1], saved[2], saved[3],
                                             saved[4], ctx->saved_data["silu"].toBool(), channels_last(grads[0]));
    return {dx, at::Tensor(), dweight, dbias, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor group_norm(const at::Tensor& x, std::int64_t groups, const at::Tensor& weight, const at::Tensor& bias,
                      bool silu, double eps) {
  TORCH_CHECK(x.dim() == 4 && x.numel() > 0 && groups > 0 && x.size(1) % groups == 0 && weight.dim() == 1 &&
                  weight.size(0) == x.size(1) && bias.sizes() == weight.sizes(),
              "group_norm: ", x.sizes(), " in ", groups, " groups, weight ", weight.sizes(), ", bias ", bias.sizes());
  return group_norm_kernel().takes(x) ? GroupNorm::apply(x, groups, weight, bias, eps, silu)
                                      : reference::group_norm(x, groups, weight, bias, silu, eps);
}

}  // namespace cirrus::kernels
