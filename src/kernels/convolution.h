// The 3 x 3 convolution of networks on CPUs in float32, with a quarter of the multiplications: Winograd's F(4 x 4, 3 x
// 3) (Lavin and Gray 2015, arXiv 1509.09308). reference:: is ATen's convolution: the oracle of the tests, and the path
// of all other devices, dtypes and shapes.
#pragma once

#include <ATen/ATen.h>

namespace cirrus::kernels {

/// Convolution with stride 1 and one pixel of zeros around. x: [N, I, H, W], weight: [O, I, 3, 3], bias: [O]; returns
/// [N, O, H, W], channels-last. Differentiable. Winograd's algorithm runs on the CPU in float32 where I and O are
/// multiples of 16; its results are good to a few 1e-6 of their rms (four times the error of the plain sum), whatever
/// the threads.
at::Tensor convolve_3x3(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {});

namespace reference {
at::Tensor convolve_3x3(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {});
}

}  // namespace cirrus::kernels
