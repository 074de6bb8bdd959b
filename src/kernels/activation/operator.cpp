// The pointwise network operators: checks, gradients, and their entries in torch's dispatcher.
#include <torch/library.h>

#include "kernels/activation.h"
#include "kernels/autograd.h"
#include "kernels/dispatch.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace cpu {
at::Tensor act(const at::Tensor& x);
at::Tensor act_backward(const at::Tensor& x, const at::Tensor& grad);
at::Tensor scale_act(const at::Tensor& x, const at::Tensor& scale);
std::tuple<at::Tensor, at::Tensor> scale_act_backward(const at::Tensor& x, const at::Tensor& scale,
                                                      const at::Tensor& grad);
std::tuple<at::Tensor, at::Tensor, at::Tensor> pixel_norm_act(const at::Tensor& x);
at::Tensor pixel_norm_act_backward(const at::Tensor& normalised, const at::Tensor& inv,
                                   const at::Tensor& grad_normalised, const at::Tensor& grad_act);
at::Tensor mp_sum(const at::Tensor& a, const at::Tensor& b, double t);
std::tuple<at::Tensor, at::Tensor> mp_sum_backward(const at::Tensor& grad, double t);
}  // namespace cpu

namespace {

TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def("act(Tensor x) -> Tensor");
  m.def("act_backward(Tensor x, Tensor grad) -> Tensor");
  m.def("scale_act(Tensor x, Tensor scale) -> Tensor");
  m.def("scale_act_backward(Tensor x, Tensor scale, Tensor grad) -> (Tensor, Tensor)");
  m.def("pixel_norm_act(Tensor x) -> (Tensor, Tensor, Tensor)");
  m.def(
      "pixel_norm_act_backward(Tensor normalised, Tensor inv, Tensor grad_normalised, Tensor grad_act)"
      " -> Tensor");
  m.def("mp_sum(Tensor a, Tensor b, float t) -> Tensor");
  m.def("mp_sum_backward(Tensor grad, float t) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cirrus, CPU, m) {
  m.impl("act", cpu::act);
  m.impl("act_backward", cpu::act_backward);
  m.impl("scale_act", cpu::scale_act);
  m.impl("scale_act_backward", cpu::scale_act_backward);
  m.impl("pixel_norm_act", cpu::pixel_norm_act);
  m.impl("pixel_norm_act_backward", cpu::pixel_norm_act_backward);
  m.impl("mp_sum", cpu::mp_sum);
  m.impl("mp_sum_backward", cpu::mp_sum_backward);
}

const auto& act_kernel() {
  static const FusedOperator<decltype(cpu::act)> kernel("cirrus::act");
  return kernel;
}
const auto& scale_act_kernel() {
  static const FusedOperator<decltype(cpu::scale_act)> kernel("cirrus::scale_act");
  return kernel;
}
const auto& pixel_norm_act_kernel() {
  static const FusedOperator<decltype(cpu::pixel_norm_act)> kernel("cirrus::pixel_norm_act");
  return kernel;
}
const auto& mp_sum_kernel() {
  static const FusedOperator<decltype(cpu::mp_sum)> kernel("cirrus::mp_sum");
  return kernel;
}

// Autograd hands backward() zeros for the gradient of an output that was not used.

struct Act : Function<Act> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input) {
    const at::Tensor x = channels_last(input);
    ctx->save_for_backward({x});
    return act_kernel()(x);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::act_backward)> kernel("cirrus::act_backward");
    return {kernel(ctx->get_saved_variables()[0], channels_last(grads[0]))};
  }
};

struct ScaleAct : Function<ScaleAct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& scale) {
    const at::Tensor x = channels_last(input), s = scale.to(at::kFloat).contiguous();
    ctx->save_for_backward({x, s});
    return scale_act_kernel()(x, s);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::scale_act_backward)> kernel("cirrus::scale_act_backward");
    const variable_list saved = ctx->get_saved_variables();
    const auto [dx, ds] = kernel(saved[0], saved[1], channels_last(grads[0]));
    return {dx, ds};
  }
};

struct PixelNormAct : Function<PixelNormAct> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& input) {
    const auto [normalised, y, inv] = pixel_norm_act_kernel()(channels_last(input));
    ctx->save_for_backward({normalised, inv});
    return {normalised, y};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::pixel_norm_act_backward)> kernel("cirrus::pixel_norm_act_backward");
    const variable_list saved = ctx->get_saved_variables();
    return {kernel(saved[0], saved[1], channels_last(grads[0]), channels_last(grads[1]))};
  }
};

struct MpSum : Function<MpSum> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b, double t) {
    ctx->saved_data["t"] = t;
    return mp_sum_kernel()(channels_last(a), channels_last(b), t);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::mp_sum_backward)> kernel("cirrus::mp_sum_backward");
    const auto [da, db] = kernel(channels_last(grads[0]), ctx->saved_data["t"].toDouble());
    return {da, db, at::Tensor()};
  }
};

}  // namespace

at::Tensor act(const at::Tensor& x) { return act_kernel().takes(x) ? Act::apply(x) : reference::act(x); }

at::Tensor scale_act(const at::Tensor& x, const at::Tensor& scale) {
  TORCH_CHECK(scale.dim() == 2 && scale.size(0) == x.size(0) && scale.size(1) == x.size(1), "scale_act: scale is ",
              scale.sizes(), " for ", x.sizes());
  return scale_act_kernel().takes(x) ? ScaleAct::apply(x, scale) : reference::scale_act(x, scale);
}

std::pair<at::Tensor, at::Tensor> pixel_norm_act(const at::Tensor& x) {
  if (!pixel_norm_act_kernel().takes(x)) return reference::pixel_norm_act(x);
  const variable_list out = PixelNormAct::apply(x);
  return {out[0], out[1]};
}

at::Tensor mp_sum(const at::Tensor& a, const at::Tensor& b, double t) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes(), "mp_sum: ", a.toString(), a.sizes(),
              " and ", b.toString(), b.sizes());
  return mp_sum_kernel().takes(a) ? MpSum::apply(a, b, t) : reference::mp_sum(a, b, t);
}

}  // namespace cirrus::kernels
