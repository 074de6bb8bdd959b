// hpu::sdpa_recomp_fwd and hpu::sdpa_recomp_bwd with arguments filled in by name.
#include "device/hpu/attention.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <cmath>

#include "device/hpu/plugin_operator.h"

namespace cirrus::device::hpu {
namespace {

/// What both directions are told: every position sees every other, nothing is dropped.
std::optional<c10::IValue> setting(const c10::Argument& argument, double scale) {
  const std::string& name = argument.name();
  if (name == "p" || name == "dropout_p") return 0.0;
  if (name == "scale") return scale;
  if (name == "is_causal") return false;
  if (name == "softmax_mode") return "none";  // "fast" rounds the softmax to fewer bits
  if (name == "seq_padding_type") return "left";
  return std::nullopt;
}

double scale_of(const at::Tensor& q) { return 1 / std::sqrt(static_cast<double>(q.size(-1))); }

PluginOperator::Values forward_values(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool training) {
  return [=](const c10::Argument& argument) -> std::optional<c10::IValue> {
    const std::string& name = argument.name();
    if (name == "q") return q;
    if (name == "k") return k;
    if (name == "v") return v;
    if (name == "requires_backward") return training;
    return setting(argument, scale_of(q));
  };
}

PluginOperator::Values backward_values(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, const at::Tensor& out, const at::Tensor& m,
                                       const at::Tensor& linv, const std::optional<at::Tensor>& seed) {
  return [=](const c10::Argument& argument) -> std::optional<c10::IValue> {
    const std::string& name = argument.name();
    if (name == "grad") return grad;
    if (name == "q") return q;
    if (name == "k") return k;
    if (name == "v") return v;
    if (name == "m") return m;
    if (name == "linv") return linv;
    if (name == "seed") return seed ? c10::IValue(*seed) : c10::IValue();
    if (name == "fwd_out") return out;
    return setting(argument, scale_of(q));
  };
}

const PluginOperator& forward_operator() {
  static const PluginOperator op("hpu::sdpa_recomp_fwd");
  return op;
}
const PluginOperator& backward_operator() {
  static const PluginOperator op("hpu::sdpa_recomp_bwd");
  return op;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, std::optional<at::Tensor>> attention(const at::Tensor& q,
                                                                                    const at::Tensor& k,
                                                                                    const at::Tensor& v,
                                                                                    bool training) {
  const torch::jit::Stack out = forward_operator()(forward_values(q, k, v, training));
  const auto tensor = [&](std::size_t i) {
    return i < out.size() && out[i].isTensor() ? out[i].toTensor() : at::Tensor();
  };
  const at::Tensor seed = tensor(3);
  return {tensor(0), tensor(1), tensor(2), seed.defined() ? std::optional(seed) : std::nullopt};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                                                  const at::Tensor& k, const at::Tensor& v,
                                                                  const at::Tensor& out, const at::Tensor& m,
                                                                  const at::Tensor& linv,
                                                                  const std::optional<at::Tensor>& seed) {
  const torch::jit::Stack d = backward_operator()(backward_values(grad, q, k, v, out, m, linv, seed));
  return {d.at(0).toTensor(), d.at(1).toTensor(), d.at(2).toTensor()};
}

}  // namespace

void register_attention() {
  static bool done = false;
  const at::Tensor any = at::empty({1, 1, 1, 1});
  if (done || !forward_operator().takes(forward_values(any, any, any, true)) ||
      !backward_operator().takes(backward_values(any, any, any, any, any, any, any, any)))
    return;
  done = true;
  // Never destroyed: the plug-in, too, stays until the process ends.
  static auto* library = new torch::Library(torch::Library::IMPL, "cirrus", c10::DispatchKey::HPU, __FILE__, __LINE__);
  library->impl("attention", attention);
  library->impl("attention_backward", attention_backward);
}

}  // namespace cirrus::device::hpu
