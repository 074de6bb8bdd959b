// The samplers.
#include "diffusion/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "diffusion/preconditioning.h"

namespace cirrus::diffusion {
namespace {

/// DPM-Solver++(2M): exact for a denoiser linear in ln sigma over two steps.
at::Tensor dpmpp_2m(const std::vector<double>& sigma, at::Tensor x, const Denoise& denoise) {
  at::Tensor previous;
  double last_h = 0;
  for (std::size_t i = 0; i + 1 < sigma.size(); ++i) {
    const at::Tensor d = denoise(x, sigma[i]);
    if (sigma[i + 1] == 0) return d;
    const double h = std::log(sigma[i] / sigma[i + 1]);
    at::Tensor direction = d;
    if (previous.defined()) {
      const double r = last_h / h;
      direction = d * (1 + 1 / (2 * r)) - previous * (1 / (2 * r));
    }
    x = x * (sigma[i + 1] / sigma[i]) - direction * std::expm1(-h);
    previous = d;
    last_h = h;
  }
  return x;
}

/// Euler or Heun steps of EDM's Algorithm 2 (Algorithm 1 without churn).
at::Tensor edm(const SamplerOptions& o, const std::vector<double>& sigma, at::Tensor x, const Denoise& denoise,
               const Noise& noise, bool second_order) {
  const double gamma = std::min(o.churn / o.steps, std::sqrt(2.0) - 1);
  for (std::size_t i = 0; i + 1 < sigma.size(); ++i) {
    const double raised = sigma[i] * (1 + gamma), next = sigma[i + 1];
    if (gamma > 0) x = x + noise(static_cast<std::uint32_t>(1 + i)) * std::sqrt(raised * raised - sigma[i] * sigma[i]);
    const at::Tensor slope = (x - denoise(x, raised)) / raised;
    at::Tensor moved = x + slope * (next - raised);
    if (second_order && next > 0) moved = x + (slope + (moved - denoise(moved, next)) / next) * (0.5 * (next - raised));
    x = moved;
  }
  return x;
}

}  // namespace

at::Tensor sample(const SamplerOptions& o, const Denoise& denoise, const Noise& noise) {
  if (o.name != "dpmpp" && o.name != "heun" && o.name != "euler" && o.name != "mean")
    throw Error(ExitCode::usage, "Unknown sampler '" + o.name + "'", "use dpmpp, heun, euler or mean");
  if (o.churn > 0 && (o.name == "dpmpp" || o.name == "mean"))
    throw Error(ExitCode::usage, "Sampler " + o.name + " has no churn", "use --sampler euler or heun with --churn");
  const at::Tensor x = noise(0) * o.sigma_max;
  if (o.name == "mean") return denoise(x, o.sigma_max);
  const std::vector<double> sigma = noise_levels(o.steps, o.sigma_min, o.sigma_max, o.rho);
  return o.name == "dpmpp" ? dpmpp_2m(sigma, x, denoise) : edm(o, sigma, x, denoise, noise, o.name == "heun");
}

int evaluations(const SamplerOptions& o) { return o.name == "mean" ? 1 : o.name == "heun" ? 2 * o.steps - 1 : o.steps; }

}  // namespace cirrus::diffusion
