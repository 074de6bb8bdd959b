// hpu::optimizer_adamw with arguments filled in by name.
#include "device/hpu/adamw.h"

#include "device/hpu/plugin_operator.h"

namespace cirrus::device::hpu {

bool fused_adamw(const AdamWUpdate& u) {
  if (u.overflow) return false;
  static const PluginOperator op("hpu::optimizer_adamw");
  // The operator takes the decay as a number; a number that changes with the rate would compile every step anew. So
  // the weights are decayed by tensors first, and the operator is told 1: no decay.
  const at::Tensor step = (u.rate * u.correction2.sqrt() / u.correction1).neg().reshape({1});
  const auto values = [&](const c10::Argument& argument) -> std::optional<c10::IValue> {
    const std::string& name = argument.name();
    if (name == "gradient_vec") return u.gradients;
    if (name == "weight_vec") return u.weights;
    if (name == "exp_avg_vec") return u.first;
    if (name == "exp_avg_sq_vec") return u.second;
    if (name == "neg_step_t" || name == "neg_step") return step;
    if (name == "beta1") return u.beta1;
    if (name == "beta2") return u.beta2;
    if (name == "epsilon") return u.epsilon;
    if (name == "weight_decay")
      return argument.type()->kind() == c10::TypeKind::TensorType ? c10::IValue(at::ones_like(step)) : c10::IValue(1.0);
    if (name == "has_weight_decay") return false;
    return std::nullopt;
  };
  if (!op.takes(values)) return false;
  if (u.weight_decay > 0) {
    std::vector<at::Tensor> weights = u.weights;
    at::_foreach_mul_(weights, 1 - u.weight_decay * u.rate);
  }
  op(values);
  return true;
}

}  // namespace cirrus::device::hpu
