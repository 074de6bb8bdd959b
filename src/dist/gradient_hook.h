// Calls back when a leaf's gradient has been added up in a backward pass.
#pragma once

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <memory>

namespace cirrus::dist {

class GradientHook : public torch::autograd::PostAccumulateGradHook {
public:
  explicit GradientHook(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const torch::autograd::Variable&) override { call_(); }

private:
  std::function<void()> call_;
};

/// Of a leaf that requires gradients; an empty function removes it.
inline void on_gradient(const at::Tensor& leaf, std::function<void()> call) {
  torch::autograd::impl::set_post_acc_grad_hooks(leaf,
                                                 call ? std::make_unique<GradientHook>(std::move(call)) : nullptr);
}

}  // namespace cirrus::dist
