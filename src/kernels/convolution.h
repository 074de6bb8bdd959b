// The 3 x 3 convolution of networks on CPUs with a quarter of the multiplications: Winograd's F(4 x 4, 3 x 3) (Lavin
// and Gray 2015, arXiv 1509.09308), in float32 arithmetic whatever the activations are stored in, with what is added to
// its result in the same pass. reference:: is ATen's convolution: the oracle of the tests, and the path of all other
// devices, dtypes and shapes.
#pragma once

#include <ATen/ATen.h>

namespace cirrus::kernels {

/// The result is scale * convolution + bias + other_scale * other.
struct Addition {
  std::optional<at::Tensor> bias{};   ///< [O], or [N, O] for each sample its own
  std::optional<at::Tensor> other{};  ///< of the shape and dtype of the result
  double scale = 1, other_scale = 1;
};

/// at::conv2d with as much padding as keeps the size at stride 1: for what is not 3 x 3, or strided. On the CPU the
/// weight is taken in oneDNN's own form where one is in use (packed_weights.h).
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {},
                    std::int64_t stride = 1);

/// Convolution with stride 1 and one pixel of zeros around. x: [N, I, H, W], weight: [O, I, 3, 3]; returns [N, O, H,
/// W], channels-last. Differentiable. Winograd's algorithm runs on the CPU in float32 and bfloat16 where I and O are
/// multiples of 16 and the batch has a few dozen tiles; its sums are good to a few 1e-6 of their rms (four times the
/// error of the plain sum), whatever the threads, and so are its gradients.
at::Tensor convolve_3x3(const at::Tensor& x, const at::Tensor& weight, const Addition& add = {});

/// The same of x with each pixel repeated twice along both sides: returns [N, O, 2 H, 2 W]. A tile of repeated pixels
/// has 25 different values where others have 36.
at::Tensor convolve_3x3_enlarged(const at::Tensor& x, const at::Tensor& weight, const Addition& add = {});

/// Whether these are Winograd's here, so that what they add costs no pass of its own and enlarging no tensor.
bool adds_while_convolving(const at::Tensor& x, const at::Tensor& weight, bool enlarged = false);

namespace reference {
at::Tensor convolve_3x3(const at::Tensor& x, const at::Tensor& weight, const Addition& add = {});
at::Tensor convolve_3x3_enlarged(const at::Tensor& x, const at::Tensor& weight, const Addition& add = {});
}  // namespace reference

}  // namespace cirrus::kernels
