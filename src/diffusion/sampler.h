// Samplers of the probability-flow ODE (and its stochastic variant) in EDM's formulation. They see a whole field at a
// time and know nothing of tiles, members or networks. Sources: Karras et al. 2022 (arXiv 2206.00364), Algorithms 1 and
// 2; DPM-Solver++(2M): Lu et al. 2022 (arXiv 2211.01095), Algorithm 2, in terms of sigma; ddpm: Ho et al. 2020 (arXiv
// 2006.11239), Algorithm 2, on the published SR3 schedule. What changes from step to step reaches the device as
// tensors, so that every step is the same work: a device with deferred execution compiles one.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <string>

namespace cirrus::diffusion {

struct SamplerOptions {
  std::string name = "dpmpp";  ///< dpmpp, heun, euler, mean, ddpm
  int steps = 16;
  double sigma_max = 40, sigma_min = 0.01, rho = 7;
  double churn = 0;  ///< S_churn of Algorithm 2, over all steps (euler and heun); 0: deterministic
};

/// D(x; sigma) for a whole state.
using Denoise = std::function<at::Tensor(const at::Tensor& x, double sigma)>;
/// Standard normal noise of the state's shape; `step` 0 is the initial noise, 1 + i the churn of step i.
using Noise = std::function<at::Tensor(std::uint32_t step)>;

/// A sample of x0. `mean` is one evaluation at sigma_max: an estimate of the mean. `ddpm` takes the 2000 steps of the
/// SR3 schedule, whatever steps and sigmas say, and cuts each estimate to [-1, 1]. Throws Error(usage) for an unknown
/// sampler, or churn with one that has none.
at::Tensor sample(const SamplerOptions& options, const Denoise& denoise, const Noise& noise);

/// Network evaluations a sample costs.
int evaluations(const SamplerOptions& options);

}  // namespace cirrus::diffusion
