// A task small enough to know by heart: find a vector from noisy looks at it. The noise of sample k is a function of k
// alone.
#pragma once

#include <c10/core/GradMode.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "dist/tensor_file.h"
#include "train/trainer.h"

namespace cirrus::test {

class QuadraticTask : public train::Task {
public:
  QuadraticTask() : position_(at::zeros({2, 3}).requires_grad_(true)), gain_(at::ones({1}).requires_grad_(true)) {}

  std::vector<dist::Unit> units() override { return {{"root", {{"position", position_}, {"gain", gain_}}}}; }
  void begin_step(std::int64_t step) override {
    begun.push_back(step);
    if (at_begin) at_begin(step);
  }
  void load(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) override {
    if (at_load) at_load(step);
    step_ = step;
    looks_.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      Stream stream(Address(1, Purpose::training_noise, static_cast<std::uint64_t>(step * batch + first + i)));
      at::Tensor& look = looks_.emplace_back(target());
      for (std::int64_t j = 0; j < look.numel(); ++j) look.view(-1)[j] += noise * stream.normal();
    }
  }
  at::Tensor loss(std::int64_t begin, std::int64_t count) override {
    at::Tensor total = at::zeros({});
    for (std::int64_t i = begin; i < begin + count; ++i)
      total =
          total + (position_ - looks_[static_cast<std::size_t>(i)]).square().mean() + 0.1 * (gain_ - 2).square().sum();
    if (step_ == bad_loss_at) total = total * std::numeric_limits<double>::quiet_NaN();
    if (step_ == bad_gradient_at)
      total = total + (position_ * 0).sqrt().sum();  // 0, whose gradient is infinity times 0
    return total / static_cast<double>(count);
  }
  void after_update() override { ++updates; }
  std::map<std::string, std::string> model_metadata(std::int64_t step, std::int64_t samples) override {
    return {{"step", std::to_string(step)}, {"samples", std::to_string(samples)}};
  }
  std::string fingerprint() const override { return kind; }

  static at::Tensor target() { return at::tensor({1.f, -2.f, 0.5f, 3.f, 0.f, -1.f}).view({2, 3}); }
  at::Tensor position() const { return position_.detach(); }

  double noise = 0.1;
  std::string kind = "quadratic";
  std::int64_t bad_loss_at = -1, bad_gradient_at = -1;
  std::function<void(std::int64_t)> at_begin, at_load;
  std::vector<std::int64_t> begun;
  int updates = 0;

private:
  at::Tensor position_, gain_;
  std::vector<at::Tensor> looks_;
  std::int64_t step_ = -1;
};

}  // namespace cirrus::test
