// Adam through ATen's fused multi-tensor operators.
#include "train/optimizer.h"

#include <c10/core/GradMode.h>

#include <cmath>

#include "kernels/average.h"

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

Optimizer::Optimizer(const OptimizerOptions& options, const std::vector<at::Tensor>& weights, device::Device& device,
                     at::ScalarType compute)
    : options_(options), device_(device) {
  const at::TensorOptions like = at::TensorOptions(device.torch_device()).dtype(at::kFloat);
  for (const at::Tensor& w : weights) {
    const at::Tensor plain = weights_.emplace_back(w.detach());
    first_.push_back(at::zeros_like(plain));
    second_.push_back(at::zeros_like(plain));
    averaged_.push_back(options.average ? plain.clone() : plain);
  }
  step_ = at::zeros({}, like);
  steps_.assign(weights_.size(), step_);
  scalars_ = at::zeros({4}, like);
  norm_ = at::zeros({}, like);
  if (compute == at::kHalf) loss_scale_.emplace(device.torch_device());
}

void Optimizer::set_updates(std::int64_t updates, double adam_steps) {
  updates_ = updates;
  step_.fill_(adam_steps);
}

void Optimizer::schedule(double rate) {
  const double n = static_cast<double>(++updates_), decay = std::pow(1 - 1 / n, options_.ema_gamma + 1);
  scalars_.copy_(at::tensor({rate, 1 - decay, 1 - std::pow(options_.beta1, n), 1 - std::pow(options_.beta2, n)},
                            at::TensorOptions(at::kFloat)));
}

at::Tensor Optimizer::step(std::vector<at::Tensor> gradients, const Combine* combine) {
  c10::NoGradGuard no_grad;
  at::Tensor overflow;
  if (loss_scale_) overflow = loss_scale_->unscale(gradients, combine ? combine->largest : nullptr);
  at::Tensor norm = at::stack(at::_foreach_norm(gradients, 2)).norm();
  if (combine != nullptr) {
    norm = norm.square();
    combine->sum(norm);
    norm = norm.sqrt();
  }
  norm_.copy_(overflow.defined() ? at::where(overflow.squeeze() > 0, norm_, norm) : norm);
  if (options_.clip > 0) at::_foreach_mul_(gradients, at::clamp_max(options_.clip / (norm + 1e-6), 1.0));
  update(gradients, overflow);
  return norm_;
}

void Optimizer::update(std::vector<at::Tensor>& gradients, const at::Tensor& overflow) {
  const OptimizerOptions& o = options_;
  step_.add_(1);
  device::AdamWUpdate fused{weights_,    gradients,   first_,  second_, steps_,    scalars_[0],
                            scalars_[2], scalars_[3], o.beta1, o.beta2, o.epsilon, o.weight_decay};
  if (overflow.defined()) fused.overflow = overflow;
  if (device_.adamw(fused)) {
    if (overflow.defined()) step_.sub_(overflow.squeeze());
    return;
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    first_[i].lerp_(gradients[i], 1 - o.beta1);
    second_[i].mul_(o.beta2).addcmul_(gradients[i], gradients[i], 1 - o.beta2);
    const at::Tensor width = (second_[i] / scalars_[3]).sqrt_().add_(o.epsilon);
    if (o.weight_decay > 0) weights_[i].mul_(1 - o.weight_decay * scalars_[0]);
    weights_[i].sub_(first_[i] / width * (scalars_[0] / scalars_[2]));
  }
}

std::vector<at::Tensor> take_gradients(const std::vector<at::Tensor>& leaves) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& leaf : leaves) {
    out.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf.detach()));
    leaf.mutable_grad().reset();
  }
  return out;
}

void Optimizer::average() {
  if (!options_.average) return;
  c10::NoGradGuard no_grad;
  kernels::average_weights(averaged_, weights_, scalars_[1]);
}

}  // namespace cirrus::train
