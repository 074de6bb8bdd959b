// Dynamic loss scaling for float16, whose smallest numbers gradients fall below: the loss is multiplied by a scale, the
// gradients are divided by it, a step whose gradients overflow is left out, and the scale adapts. All of it lives on
// the device, so that nothing waits for a value. Source: Micikevicius et al. 2018 (arXiv 1710.03740), Section 3.2.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

namespace cirrus::train {

class LossScale {
public:
  explicit LossScale(const at::Device& device);
  at::Tensor scaled(const at::Tensor& loss) const { return loss * scale_; }
  /// Divides the gradients by the scale, in place, and adapts the scale: halved after an overflow, doubled after 2000
  /// steps without one. Returns 1 if any gradient is not finite, else 0 (float32, on the device). `largest` combines
  /// that over ranks that have different gradients.
  at::Tensor unscale(std::vector<at::Tensor>& gradients,
                     const std::function<void(const at::Tensor&)>& largest = nullptr);
  /// [scale, steps since it changed], float32: for checkpoints.
  at::Tensor state() const;
  void restore(const at::Tensor& state);

private:
  at::Tensor scale_, growth_, overflow_;
};

}  // namespace cirrus::train
