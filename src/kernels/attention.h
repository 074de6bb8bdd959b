// Self-attention: softmax(q k^T / sqrt(C)) v, without the T x T matrix in memory where a device has a kernel for that.
// Which one runs: an operator that a device's module registered in library `cirrus`, else ATen's own where it chooses
// among kernels of that device, else the composition in reference.cpp.
#pragma once

#include <ATen/ATen.h>

namespace cirrus::kernels {

/// softmax(q k^T / sqrt(C)) v, over all T positions. q, k, v: [N, heads, T, C] of one dtype. Differentiable. Returns
/// [N, heads, T, C].
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

namespace reference {
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
}

}  // namespace cirrus::kernels
