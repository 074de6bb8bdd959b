// The samplers.
#include "diffusion/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "diffusion/preconditioning.h"
#include "diffusion/sr3_schedule.h"

namespace cirrus::diffusion {
namespace {

/// The numbers of a step as float32 scalars on the state's device, in the same memory at each step.
class Coefficients {
public:
  Coefficients(const at::Tensor& state, std::int64_t count)
      : host_(at::empty({count}, at::kFloat)), values_(at::empty({count}, state.options())) {}
  void set(std::initializer_list<double> values) {
    float* p = host_.data_ptr<float>();
    for (const double v : values) *p++ = static_cast<float>(v);
    values_.copy_(host_);
  }
  at::Tensor operator[](std::int64_t i) const { return values_.select(0, i); }

private:
  at::Tensor host_, values_;
};

/// DPM-Solver++(2M): exact for a denoiser linear in ln sigma over two steps.
at::Tensor dpmpp_2m(const std::vector<double>& sigma, at::Tensor x, const Denoise& denoise) {
  at::Tensor previous = at::zeros_like(x);
  Coefficients c(x, 3);
  double last_h = 0;
  for (std::size_t i = 0; i + 1 < sigma.size(); ++i) {
    at::Tensor d = denoise(x, sigma[i]);
    if (sigma[i + 1] == 0) return d;
    const double h = std::log(sigma[i] / sigma[i + 1]), move = -std::expm1(-h), extra = i == 0 ? 0 : h / (2 * last_h);
    c.set({sigma[i + 1] / sigma[i], move * (1 + extra), -move * extra});
    x.mul_(c[0]).addcmul_(d, c[1]).addcmul_(previous, c[2]);
    previous = std::move(d);
    last_h = h;
  }
  return x;
}

/// Euler or Heun steps of EDM's Algorithm 2 (Algorithm 1 without churn).
at::Tensor edm(const SamplerOptions& o, const std::vector<double>& sigma, at::Tensor x, const Denoise& denoise,
               const Noise& noise, bool second_order) {
  const double gamma = std::min(o.churn / o.steps, std::sqrt(2.0) - 1);
  Coefficients c(x, 3);
  for (std::size_t i = 0; i + 1 < sigma.size(); ++i) {
    const double raised = sigma[i] * (1 + gamma), next = sigma[i + 1], move = next - raised;
    c.set({std::sqrt(raised * raised - sigma[i] * sigma[i]), move / raised, next > 0 ? 0.5 * move / next : 0});
    if (gamma > 0) x = at::addcmul(x, noise(static_cast<std::uint32_t>(1 + i)), c[0]);
    const at::Tensor step = (x - denoise(x, raised)) * c[1];
    const at::Tensor moved = x + step;
    x = second_order && next > 0 ? x + step * 0.5 + (moved - denoise(moved, next)) * c[2] : moved;
  }
  return x;
}

/// Ancestral sampling: the posterior of each step given the estimate, drawn.
at::Tensor ddpm(at::Tensor y, const Denoise& denoise, const Noise& noise) {
  const Sr3Schedule schedule;
  Coefficients c(y, 4);
  for (int t = kSr3Steps; t >= 1; --t) {
    const auto i = static_cast<std::size_t>(t);
    const double beta = schedule.beta[i], now = schedule.alpha_bar[i], before = schedule.alpha_bar[i - 1];
    c.set({1 / schedule.g(t), beta * std::sqrt(before) / (1 - now), (1 - before) * std::sqrt(1 - beta) / (1 - now),
           std::sqrt(beta * (1 - before) / (1 - now))});
    const at::Tensor x0 = denoise(y * c[0], sigma_of(schedule.g(t))).clamp(-1, 1);
    y = at::addcmul(x0 * c[1], y, c[2]);
    if (t > 1) y.addcmul_(noise(static_cast<std::uint32_t>(1 + kSr3Steps - t)), c[3]);
  }
  return y;
}

}  // namespace

at::Tensor sample(const SamplerOptions& o, const Denoise& denoise, const Noise& noise) {
  const bool known = o.name == "dpmpp" || o.name == "heun" || o.name == "euler" || o.name == "mean" || o.name == "ddpm";
  if (!known) throw Error(ExitCode::usage, "Unknown sampler '" + o.name + "'", "use dpmpp, heun, euler, mean or ddpm");
  if (o.churn > 0 && o.name != "heun" && o.name != "euler")
    throw Error(ExitCode::usage, "Sampler " + o.name + " has no churn", "use --sampler euler or heun with --churn");
  if (o.name == "ddpm") return ddpm(noise(0), denoise, noise);
  at::Tensor x = noise(0) * o.sigma_max;
  if (o.name == "mean") return denoise(x, o.sigma_max);
  const std::vector<double> sigma = noise_levels(o.steps, o.sigma_min, o.sigma_max, o.rho);
  return o.name == "dpmpp" ? dpmpp_2m(sigma, x, denoise) : edm(o, sigma, x, denoise, noise, o.name == "heun");
}

int evaluations(const SamplerOptions& o) {
  return o.name == "mean" ? 1 : o.name == "ddpm" ? kSr3Steps : o.name == "heun" ? 2 * o.steps - 1 : o.steps;
}

}  // namespace cirrus::diffusion
