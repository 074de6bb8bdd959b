// The moving average of a network's weights, all layers in one call.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace cirrus::kernels {

/// averaged += share * (weights - averaged), in place. Lists of float32 tensors of equal shapes; share: one float32
/// value on their device (so that a recorded graph reads what it is then). Not differentiable.
void average_weights(const std::vector<at::Tensor>& averaged, const std::vector<at::Tensor>& weights,
                     const at::Tensor& share);

namespace reference {
void average_weights(const std::vector<at::Tensor>& averaged, const std::vector<at::Tensor>& weights,
                     const at::Tensor& share);
}

}  // namespace cirrus::kernels
