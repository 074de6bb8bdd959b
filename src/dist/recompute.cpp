// Activation checkpointing as one autograd function around a unit.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "dist/unit.h"

namespace cirrus::dist {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Call : torch::CustomClassHolder {
  explicit Call(UnitRunner::Work w) : work(std::move(w)) {}
  UnitRunner::Work work;
};

struct Recompute : torch::autograd::Function<Recompute> {
  static variable_list forward(AutogradContext* ctx, const c10::intrusive_ptr<Call>& call, at::TensorList inputs) {
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    ctx->save_for_backward(inputs.vec());
    // The anchor makes the outputs require gradients where the inputs do not: the parameters inside do.
    return call->work(variable_list(inputs.begin(), inputs.end() - 1));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto call = c10::static_intrusive_pointer_cast<Call>(ctx->saved_data["call"].toCapsule());
    variable_list inputs = ctx->get_saved_variables(), again;
    for (std::size_t i = 0; i + 1 < inputs.size(); ++i)
      again.push_back(inputs[i].detach().requires_grad_(inputs[i].requires_grad()));
    variable_list outputs, weights;
    {
      const at::AutoGradMode with_graph(true);
      const variable_list all = call->work(again);
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (!all[i].requires_grad() || !gradients[i].defined()) continue;
        outputs.push_back(all[i]);
        weights.push_back(gradients[i]);
      }
    }
    torch::autograd::backward(outputs, weights);
    variable_list out{at::Tensor()};  // of `call`
    for (const at::Tensor& x : again) out.push_back(x.requires_grad() ? x.grad() : at::Tensor());
    out.emplace_back();  // of the anchor
    return out;
  }
};

}  // namespace

UnitRunner::Tensors run_recomputed(const UnitRunner::Tensors& inputs, const UnitRunner::Work& work) {
  if (!c10::GradMode::is_enabled()) return work(inputs);
  variable_list with_anchor(inputs);
  with_anchor.push_back(at::zeros({}).requires_grad_(true));
  return Recompute::apply(c10::make_intrusive<Call>(work), at::TensorList(with_anchor));
}

}  // namespace cirrus::dist
