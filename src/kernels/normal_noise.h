// Standard normal noise addressed by global pixel: what pixel (y, x) of a member gets does not depend on the window
// that is filled, its batch, the threads or the ranks. Source: Philox4x32-10 (base/random.h) and Box-Muller.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace cirrus::kernels {

/// Which window of which addressed fields to fill.
struct NoiseWindow {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::sampler_noise;
  std::vector<std::uint64_t> items;  ///< one per sample of the batch: member or training sample
  std::uint32_t step = 0;
  std::int64_t y0 = 0, x0 = 0;  ///< global pixel of the window's first pixel, >= 0
};

/// Fills out ([N, 1, H, W], float32, N = items) with N(0, 1).
void fill_normal(at::Tensor& out, const NoiseWindow& window);
at::Tensor normal_noise(at::IntArrayRef shape, const NoiseWindow& window, const at::Device& device = at::kCPU);

/// N(0, 1) of any shape on the CPU, from the address of `item` alone: for parameters, self-tests and benchmarks, whose
/// values are no pixels.
at::Tensor normals(at::IntArrayRef shape, std::uint64_t seed, Purpose purpose, std::uint64_t item);

namespace reference {
void fill_normal(at::Tensor& out, const NoiseWindow& window);  ///< in double, one pixel at a time
}

}  // namespace cirrus::kernels
