// Attention: checks, the choice of a kernel, its gradient, and its schemas in torch's dispatcher. No kernel is compiled
// here: those of library `cirrus` arrive with the module of a device whose vendor has one outside ATen.
#include "kernels/attention.h"

#include <torch/library.h>

#include "kernels/autograd.h"
#include "kernels/dispatch.h"

namespace cirrus::kernels {
namespace {

// m and linv: maximum and inverse sum of each row of the softmax; seed: of the vendor's generator; all of them for the
// gradient alone, and in whatever form the kernel wants them back.
TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def("attention(Tensor q, Tensor k, Tensor v, bool training) -> (Tensor out, Tensor m, Tensor linv, Tensor? seed)");
  m.def(
      "attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor m, Tensor linv, Tensor? seed)"
      " -> (Tensor, Tensor, Tensor)");
}

using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, std::optional<at::Tensor>>(const at::Tensor& q,
                                                                                          const at::Tensor& k,
                                                                                          const at::Tensor& v,
                                                                                          bool training);
using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor>(const at::Tensor& grad, const at::Tensor& q,
                                                                const at::Tensor& k, const at::Tensor& v,
                                                                const at::Tensor& out, const at::Tensor& m,
                                                                const at::Tensor& linv,
                                                                const std::optional<at::Tensor>& seed);

const FusedOperator<Forward>& attention_kernel() {
  static const FusedOperator<Forward> kernel("cirrus::attention");
  return kernel;
}

struct Attention : Function<Attention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const auto [out, m, linv, seed] = attention_kernel()(q, k, v, true);
    ctx->save_for_backward({q, k, v, out, m, linv, seed.value_or(at::Tensor())});
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<Backward> kernel("cirrus::attention_backward");
    const variable_list s = ctx->get_saved_variables();
    const std::optional<at::Tensor> seed = s[6].defined() ? std::optional(s[6]) : std::nullopt;
    const auto [dq, dk, dv] = kernel(grads[0].contiguous(), s[0], s[1], s[2], s[3], s[4], s[5], seed);
    return {dq, dk, dv};
  }
};

/// Whether ATen chooses among attention kernels of the tensor's device. It asks elsewhere too, and then takes one that
/// the device has not.
bool aten_has_kernels(const at::Tensor& x) {
  static const auto choice = c10::Dispatcher::singleton().findSchema({"aten::_fused_sdp_choice", ""});
  return choice && choice->hasKernelForDispatchKey(c10::legacyExtractDispatchKey(x.key_set()));
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  TORCH_CHECK(q.dim() == 4 && q.numel() > 0 && q.sizes() == k.sizes() && q.sizes() == v.sizes() &&
                  q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
              "attention: ", q.toString(), q.sizes(), ", ", k.toString(), k.sizes(), ", ", v.toString(), v.sizes());
  if (attention_kernel().takes(q)) {
    const at::Tensor a = q.contiguous(), b = k.contiguous(), c = v.contiguous();
    const bool training = at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
    return training ? Attention::apply(a, b, c) : std::get<0>(attention_kernel()(a, b, c, false));
  }
  return aten_has_kernels(q) ? at::scaled_dot_product_attention(q, k, v) : reference::attention(q, k, v);
}

}  // namespace cirrus::kernels
