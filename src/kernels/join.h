// Where the decoder joins its coarse activations with those of the encoder, without the tensors in between: neither the
// upsampled one nor the concatenation is stored, since activations and 1 x 1 convolutions commute with repetition.
// Source of the weights: Karras et al. 2024 (arXiv 2312.02696), Eq. 103. reference:: holds the same operators composed
// of plain ATen ones: the oracle of the tests, and the path of other devices.
#pragma once

#include <ATen/ATen.h>

#include <array>

namespace cirrus::kernels {

/// act of the concatenation of wa * coarse (each pixel repeated) and wb * fine, weighted as cat_weights says. coarse:
/// [N, Ca, H/f, W/f] with f 1 or 2, fine: [N, Cb, H, W]; returns [N, Ca + Cb, H, W].
at::Tensor upsample_cat_act(const at::Tensor& coarse, const at::Tensor& fine);

/// k[0] * coarse (each pixel repeated) + k[1] * fine + k[2] * other. coarse: [N, C, H/f, W/f] with f 1 or 2; the others
/// [N, C, H, W].
at::Tensor upsample_sum(const at::Tensor& coarse, const at::Tensor& fine, const at::Tensor& other,
                        const std::array<double, 3>& k);

namespace reference {
at::Tensor upsample_cat_act(const at::Tensor& coarse, const at::Tensor& fine);
at::Tensor upsample_sum(const at::Tensor& coarse, const at::Tensor& fine, const at::Tensor& other,
                        const std::array<double, 3>& k);
}  // namespace reference

}  // namespace cirrus::kernels
