// Adam with global-norm clipping and an exponential moving average of the weights; learning-rate schedule. All state is
// float32. Sources: Kingma and Ba 2015; power-function average: Karras et al. 2024 (arXiv 2312.02696), Eq. 127.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

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
  double ema_gamma = 6.94;  ///< exponent of the power-function average
};

/// Learning rate of a step (0-based) of `steps`.
double learning_rate(const OptimizerOptions& options, std::int64_t step, std::int64_t steps);

class Optimizer {
public:
  Optimizer(const OptimizerOptions& options, std::vector<at::Tensor> parameters);
  /// One update from the parameters' gradients, then clears them. Returns the gradient's norm before clipping (on the
  /// device).
  at::Tensor step(double rate);
  /// Updates the average; call after the task's own after_update().
  void average();

  std::int64_t updates() const { return updates_; }
  const std::vector<at::Tensor>& averaged() const { return averaged_; }
  std::vector<at::Tensor>& first_moments() { return first_; }
  std::vector<at::Tensor>& second_moments() { return second_; }
  std::vector<at::Tensor>& averaged_for_loading() { return averaged_; }
  void set_updates(std::int64_t updates);

private:
  OptimizerOptions options_;
  std::vector<at::Tensor> parameters_, first_, second_, averaged_, steps_;
  std::int64_t updates_ = 0;
};

}  // namespace cirrus::train
