// A 3 x 3 convolution of repeated pixels as a 2 x 2 convolution of the pixels themselves: of the nine taps on an
// enlarged map at most four fall on different pixels, which four depends on where in its pixel the result lies (its
// phase). One convolution computes all four phases; here they are put in their places and joined with what the other
// input of the layer gives. reference:: holds the same composed of plain ATen operators.
#pragma once

#include <ATen/ATen.h>

namespace cirrus::kernels {

/// Weights of the four phases: w [O, I, 3, 3] -> [4 O, I, 2, 2], output channel (2 py + px) O + o, in `dtype`. Convolve
/// with padding 1; phase (py, px) of coarse pixel (y, x) is at (y + py, x + px). Differentiable.
at::Tensor phase_weights(const at::Tensor& w, at::ScalarType dtype);

/// act(scale (p + fine)), p the phases in their places: p[2 y + py, 2 x + px] = phases[(2 py + px) C + c, y + py, x +
/// px]. phases: [N, 4 C, h + 1, w + 1], fine: [N, C, 2 h, 2 w], scale: [N, C] float32. Differentiable.
at::Tensor phase_sum_scale_act(const at::Tensor& phases, const at::Tensor& fine, const at::Tensor& scale);

namespace reference {
at::Tensor phase_sum_scale_act(const at::Tensor& phases, const at::Tensor& fine, const at::Tensor& scale);
}

}  // namespace cirrus::kernels
