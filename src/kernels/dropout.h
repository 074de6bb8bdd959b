// Dropout (Srivastava et al. 2014) whose mask is addressed: which values of a sample are dropped depends on the seed,
// the sample and the layer alone, not on its batch, the device, the threads or the dtype. reference:: holds the same
// with a mask made one value at a time: the oracle of the tests. On devices without a kernel the mask is made on the
// host and copied.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace cirrus::kernels {

/// x with each value dropped with probability p, the others divided by 1 - p. x: [N, C, H, W]; 0 <= p < 1; samples:
/// int64 [N], the address of each sample, on x's device or on the host, where has_dropout_kernel() says; layer: tells
/// masks of one sample apart (the layer, and the training step if a sample comes again). Differentiable. Returns
/// channels-last.
at::Tensor dropout(const at::Tensor& x, double p, std::uint64_t seed, const at::Tensor& samples, std::uint32_t layer);

/// Whether samples belong on the device: it makes masks itself. Elsewhere they belong on the host, so that nobody waits
/// for the device to read them.
bool has_dropout_kernel(const at::Device& device);

/// The smallest 32-bit word that is kept: uniform_from_bits(word) >= p (base/random.h).
inline std::uint32_t dropout_threshold(double p) {
  return static_cast<std::uint32_t>(std::clamp(std::ceil(p * 4294967296.0 - 0.5), 0.0, 4294967295.0));
}

namespace reference {
at::Tensor dropout(const at::Tensor& x, double p, std::uint64_t seed, const at::Tensor& samples, std::uint32_t layer);
}

}  // namespace cirrus::kernels
