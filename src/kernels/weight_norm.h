// Weight normalisation of all layers of a network in one call: each output channel's weights are scaled to unit rms and
// by gain / sqrt(fan in), so that activations keep unit magnitude. Source: Karras et al. 2024 (arXiv 2312.02696), Eqs.
// 47 and 66.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace cirrus::kernels {

/// Effective weights. w: float32 [O, I, kh, kw] or [O, I] each; result: dtype, channels-last for 4-D; w_eff[o] = w[o] /
/// |w[o]|_2 (so that unit-variance inputs give unit-variance outputs). Differentiable.
std::vector<at::Tensor> normalize_weights(const std::vector<at::Tensor>& w, at::ScalarType dtype);

/// Sets each output channel of w to rms 1, in place ("forced" weight normalisation, after each optimizer step).
void force_unit_weights(const std::vector<at::Tensor>& w);

namespace reference {
std::vector<at::Tensor> normalize_weights(const std::vector<at::Tensor>& w, at::ScalarType dtype);
void force_unit_weights(const std::vector<at::Tensor>& w);
}  // namespace reference

}  // namespace cirrus::kernels
