// Weight normalisation of all layers: one autograd node, and its entries in torch's dispatcher.
#include <torch/library.h>

#include "kernels/autograd.h"
#include "kernels/dispatch.h"
#include "kernels/rows.h"
#include "kernels/weight_norm.h"

namespace cirrus::kernels {
namespace cpu {
std::tuple<std::vector<at::Tensor>, std::vector<at::Tensor>> normalize_weights(at::TensorList weights,
                                                                               at::ScalarType dtype);
std::vector<at::Tensor> normalize_weights_backward(at::TensorList weights, at::TensorList inverse,
                                                   at::TensorList grads);
void force_unit_weights(at::TensorList weights);
}  // namespace cpu

namespace {

TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def("normalize_weights(Tensor[] w, ScalarType dtype) -> (Tensor[], Tensor[])");
  m.def("normalize_weights_backward(Tensor[] w, Tensor[] inv, Tensor[] grads) -> Tensor[]");
  m.def("force_unit_weights(Tensor(a!)[] w) -> ()");
}

TORCH_LIBRARY_IMPL(cirrus, CPU, m) {
  m.impl("normalize_weights", cpu::normalize_weights);
  m.impl("normalize_weights_backward", cpu::normalize_weights_backward);
  m.impl("force_unit_weights", cpu::force_unit_weights);
}

const auto& normalize_weights_kernel() {
  static const FusedOperator<decltype(cpu::normalize_weights)> kernel("cirrus::normalize_weights");
  return kernel;
}

/// Stored like the activations: channels-last, so that a row of one output channel is contiguous in both.
at::Tensor dense(const at::Tensor& w) { return w.dim() == 4 ? channels_last(w) : w.contiguous(); }

struct NormalizeWeights : Function<NormalizeWeights> {
  static variable_list forward(AutogradContext* ctx, at::TensorList weights, std::int64_t dtype) {
    variable_list saved;
    for (const at::Tensor& w : weights) saved.push_back(dense(w));
    const auto [effective, inverse] = normalize_weights_kernel()(saved, static_cast<at::ScalarType>(dtype));
    saved.insert(saved.end(), inverse.begin(), inverse.end());
    ctx->save_for_backward(saved);
    return effective;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::normalize_weights_backward)> kernel("cirrus::normalize_weights_backward");
    const variable_list saved = ctx->get_saved_variables();
    const at::TensorList all(saved);
    variable_list gradients;
    for (const at::Tensor& g : grads) gradients.push_back(dense(g));
    variable_list out = kernel(all.slice(0, grads.size()), all.slice(grads.size()), gradients);
    out.emplace_back();  // dtype
    return out;
  }
};

}  // namespace

std::vector<at::Tensor> normalize_weights(const std::vector<at::Tensor>& w, at::ScalarType dtype) {
  const bool fused = !w.empty() && w[0].scalar_type() == at::kFloat && is_kernel_dtype(dtype, w[0].device()) &&
                     normalize_weights_kernel().on_device_of(w[0]);
  return fused ? NormalizeWeights::apply(at::TensorList(w), static_cast<std::int64_t>(dtype))
               : reference::normalize_weights(w, dtype);
}

void force_unit_weights(const std::vector<at::Tensor>& weights) {
  static const FusedOperator<decltype(cpu::force_unit_weights)> kernel("cirrus::force_unit_weights");
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> rows, others;  // rows: each output channel's weights lie together
  for (const at::Tensor& w : weights) {
    const bool fused = w.scalar_type() == at::kFloat && kernel.on_device_of(w) && w.is_non_overlapping_and_dense() &&
                       w.stride(0) == w.numel() / w.size(0);
    (fused ? rows : others).push_back(w);
  }
  if (!rows.empty()) kernel(rows);
  reference::force_unit_weights(others);
}

}  // namespace cirrus::kernels
