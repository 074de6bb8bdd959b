// Names of LibTorch's custom differentiable functions, for the CPU kernels of this folder.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

namespace cirrus::kernels {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

}  // namespace cirrus::kernels
