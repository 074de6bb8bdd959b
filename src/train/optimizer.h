// Adam with global-norm clipping and an exponential moving average of the weights; learning-rate schedule. Sources:
// Kingma and Ba 2015; power-function average: Karras et al. 2024 (arXiv 2312.02696), Eq. 127.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "device/device.h"
#include "train/loss_scale.h"

namespace cirrus::train {

struct OptimizerOptions {
  double learning_rate = 0.01;
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-8;
  double weight_decay = 0;      ///< decoupled (AdamW)
  double clip = 1;              ///< of the global gradient norm; 0: none
  std::int64_t warmup = 60;     ///< steps of linear increase
  double constant_steps = 1e9;  ///< after so many steps the rate falls as 1/sqrt(step)
  double cooldown_share = 0.4;  ///< last part of all steps: cosine to final_share
  double final_share = 0.02;
  bool average = true;      ///< keep the moving average; else the result is the last weights
  double ema_gamma = 6.94;  ///< exponent of the power-function average
};

/// Learning rate of a step (0-based) of `steps`.
double learning_rate(const OptimizerOptions& options, std::int64_t step, std::int64_t steps);

/// How ranks that update different weights combine what each knows of its own, in place.
struct Combine {
  std::function<void(const at::Tensor&)> sum, largest;
};

/// A step is schedule(), backward passes of scaled() losses, step(), average(). All but schedule() only queue work on
/// the device, so that they can be recorded. State is of the weights' type.
class Optimizer {
public:
  /// `weights`: what is updated, in place. `compute`: type of the activations; float16 has its losses scaled.
  Optimizer(const OptimizerOptions& options, const std::vector<at::Tensor>& weights, device::Device& device,
            at::ScalarType compute = at::kFloat);
  /// Copies to the device what changes from step to step.
  void schedule(double rate);
  /// What backward() is called on.
  at::Tensor scaled(const at::Tensor& loss) const { return loss_scale_ ? loss_scale_->scaled(loss) : loss; }
  /// One update; may change the gradients. `combine`: where ranks update different weights. Returns the global norm of
  /// the gradient before clipping (on the device); of a step that was left out because float16 overflowed, that of the
  /// step before.
  at::Tensor step(std::vector<at::Tensor> gradients, const Combine* combine = nullptr);
  /// Updates the average; call after the task's own after_update().
  void average();

  std::int64_t updates() const { return updates_; }
  const std::vector<at::Tensor>& averaged() const { return averaged_; }
  std::vector<at::Tensor>& first_moments() { return first_; }
  std::vector<at::Tensor>& second_moments() { return second_; }
  /// Adam's own step number, which float16's left-out steps do not advance; float32, a scalar.
  at::Tensor& adam_steps() { return step_; }
  std::optional<LossScale>& loss_scale() { return loss_scale_; }
  /// Goes on after so many updates, of which Adam saw `adam_steps`.
  void set_updates(std::int64_t updates, double adam_steps);

private:
  void update(std::vector<at::Tensor>& gradients, const at::Tensor& overflow);

  OptimizerOptions options_;
  device::Device& device_;
  std::vector<at::Tensor> weights_, first_, second_, averaged_;
  at::Tensor step_;                ///< what Adam counts
  std::vector<at::Tensor> steps_;  ///< the same, once for each parameter
  at::Tensor scalars_;  ///< float32 on the device: rate, the average's share, the bias corrections of both moments
  at::Tensor norm_;
  std::optional<LossScale> loss_scale_;
  std::int64_t updates_ = 0;
};

/// The gradients of leaves, zero where there are none; the leaves are left without.
std::vector<at::Tensor> take_gradients(const std::vector<at::Tensor>& leaves);

}  // namespace cirrus::train
