// Adam through ATen's fused multi-tensor operators.
#include "train/optimizer.h"

#include <c10/core/GradMode.h>

#include <cmath>

namespace cirrus::train {

double learning_rate(const OptimizerOptions& o, std::int64_t step, std::int64_t steps) {
  double rate = o.learning_rate;
  if (step < o.warmup) rate *= static_cast<double>(step + 1) / static_cast<double>(o.warmup);
  if (static_cast<double>(step) > o.constant_steps) rate *= std::sqrt(o.constant_steps / static_cast<double>(step));
  const double from = static_cast<double>(steps) * (1 - o.cooldown_share);
  if (static_cast<double>(step) > from && o.cooldown_share > 0) {
    const double t = std::min(1.0, (static_cast<double>(step) - from) / (static_cast<double>(steps) - from));
    rate *= o.final_share + (1 - o.final_share) * 0.5 * (1 + std::cos(M_PI * t));
  }
  return rate;
}

Optimizer::Optimizer(const OptimizerOptions& options, std::vector<at::Tensor> parameters)
    : options_(options), parameters_(std::move(parameters)) {
  for (const at::Tensor& p : parameters_) {
    const at::Tensor plain = p.detach();
    first_.push_back(at::zeros_like(plain));
    second_.push_back(at::zeros_like(plain));
    averaged_.push_back(plain.clone());
    steps_.push_back(at::zeros({}, plain.options().dtype(at::kFloat)));
  }
}

void Optimizer::set_updates(std::int64_t updates) {
  updates_ = updates;
  for (at::Tensor& s : steps_) s.fill_(static_cast<double>(updates));
}

at::Tensor Optimizer::step(double rate) {
  c10::NoGradGuard no_grad;
  std::vector<at::Tensor> plain, gradients;
  for (const at::Tensor& p : parameters_) {
    plain.push_back(p.detach());
    gradients.push_back(p.grad().defined() ? p.grad() : at::zeros_like(plain.back()));
  }
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients, 2)).norm();
  if (options_.clip > 0) at::_foreach_mul_(gradients, at::clamp_max(options_.clip / (norm + 1e-6), 1.0));
  at::_foreach_add_(steps_, 1);
  ++updates_;
  at::_fused_adamw_(plain, gradients, first_, second_, {}, steps_, rate, options_.beta1, options_.beta2,
                    options_.weight_decay, options_.epsilon, false, false);
  for (const at::Tensor& p : parameters_) p.mutable_grad().reset();
  return norm;
}

void Optimizer::average() {
  c10::NoGradGuard no_grad;
  std::vector<at::Tensor> plain;
  for (const at::Tensor& p : parameters_) plain.push_back(p.detach());
  const double beta =
      std::pow(1 - 1 / static_cast<double>(std::max<std::int64_t>(updates_, 1)), options_.ema_gamma + 1);
  at::_foreach_lerp_(averaged_, plain, 1 - beta);
}

}  // namespace cirrus::train
