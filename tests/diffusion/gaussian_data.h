// Data whose denoiser is known: x0 ~ N(0, s^2) in every pixel, so that E[x0 | x] = x s^2 / (s^2 + sigma^2), and the
// probability-flow ODE from sigma_a to sigma_b multiplies x by sqrt((s^2 + sigma_b^2) / (s^2 + sigma_a^2)).
#pragma once

#include <ATen/ATen.h>

#include <cmath>

#include "base/random.h"

namespace cirrus::test {

inline constexpr double kDataRms = 0.5;

inline at::Tensor gaussian_denoiser(const at::Tensor& x, double sigma) {
  return x * (kDataRms * kDataRms / (kDataRms * kDataRms + sigma * sigma));
}

inline double ode_factor(double from, double to) {
  return std::sqrt((kDataRms * kDataRms + to * to) / (kDataRms * kDataRms + from * from));
}

/// N(0, 1) that is the same on every machine.
inline at::Tensor normals(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType type = at::kFloat) {
  Stream stream(Address(seed, Purpose::bootstrap));
  at::Tensor out = at::empty(shape, at::kDouble);
  double* p = out.data_ptr<double>();
  for (std::int64_t i = 0; i < out.numel(); ++i) p[i] = stream.normal();
  return out.to(type);
}

}  // namespace cirrus::test
