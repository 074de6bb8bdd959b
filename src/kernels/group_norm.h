// Group normalisation (Wu and He 2018, arXiv 1803.08494), with the SiLU that follows it in one pass. reference:: holds
// the same composed of plain ATen operators: the oracle of the tests, and the path of devices without a kernel.
#pragma once

#include <ATen/ATen.h>

namespace cirrus::kernels {

/// (x - mean) / sqrt(variance + eps) * weight[c] + bias[c], mean and variance over each sample's group of C / groups
/// channels; then SiLU if asked for. x: [N, C, H, W]; weight, bias: [C]. Statistics in float32 whatever x is.
/// Differentiable; gradients do not depend on the threads. Returns channels-last.
at::Tensor group_norm(const at::Tensor& x, std::int64_t groups, const at::Tensor& weight, const at::Tensor& bias,
                      bool silu, double eps = 1e-5);

namespace reference {
at::Tensor group_norm(const at::Tensor& x, std::int64_t groups, const at::Tensor& weight, const at::Tensor& bias,
                      bool silu, double eps = 1e-5);
}

}  // namespace cirrus::kernels
