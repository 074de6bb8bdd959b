// The Wiener baseline. With W the frequency response of block mean and kernel, decimation by s folds s^2 modes of the
// output grid onto one of the input: LR_k = s^-2 sum_a W_a X_a, so <|LR_k|^2> = A sum_a |W_a|^2 P_a / s^4 + noise, and
// the estimate of each folded mode is its covariance with LR_k over that variance.
#include <ATen/ATen.h>

#include <numbers>

#include "base/errors.h"
#include "metrics/baselines.h"
#include "metrics/map.h"
#include "metrics/quantile.h"
#include "sky/beam.h"

namespace cirrus::metrics {
namespace {

/// Response of one axis at output frequencies k (cycles per output pixel): mean of the block's phases times the kernel.
at::Tensor line_response(const at::Tensor& k, int64_t factor, double kernel) {
  const at::Tensor phase = 2 * std::numbers::pi * k.unsqueeze(1) * at::arange(factor, at::kDouble).unsqueeze(0);
  const at::Tensor block = at::complex(phase.cos(), phase.sin()).mean(1);
  return block * (-2 * (std::numbers::pi * kernel * k).square()).exp();
}

at::Tensor mirrored_twice(const at::Tensor& map) {
  const at::Tensor wide = at::cat({map, map.flip({1})}, 1);
  return at::cat({wide, wide.flip({0})}, 0);
}

}  // namespace

at::Tensor wiener(const at::Tensor& lr, int64_t factor, const WienerModel& model) {
  if (factor < 1) throw Error(ExitCode::usage, "the factor must be at least 1", "use 2 or 4");
  const at::Tensor map = as_map(lr, "the low-resolution map");
  const int64_t s = factor, n1 = map.size(0), n2 = map.size(1);
  const at::Tensor mu = map.mean();
  const at::Tensor y = at::fft_fft2(mirrored_twice(map - mu));

  const at::Tensor k1 = at::fft_fftfreq(2 * n1 * s, 1.0, at::kDouble),
                   k2 = at::fft_fftfreq(2 * n2 * s, 1.0, at::kDouble);
  const at::Tensor kk = k1.square().unsqueeze(1) + k2.square().unsqueeze(0);
  const at::Tensor transfer =
      line_response(k1, s, model.kernel).unsqueeze(1) * line_response(k2, s, model.kernel).unsqueeze(0);
  const double beam = 2 * std::numbers::pi * model.beam_hr / sky::kFwhmPerSigma;
  at::Tensor prior = (kk + 1e-7).pow(-model.slope / 2) * (-beam * beam * kk).exp();
  prior = prior.clamp_min(prior.max().item<double>() * 1e-16);
  const double s4 = static_cast<double>(s * s * s * s);
  const at::Tensor folded =
      (transfer.abs().square() * prior).reshape({s, 2 * n1, s, 2 * n2}).sum(at::IntArrayRef{0, 2}) / s4;

  const at::Tensor q1 = at::fft_fftfreq(2 * n1, 1.0, at::kDouble), q2 = at::fft_fftfreq(2 * n2, 1.0, at::kDouble);
  const at::Tensor k_lr = at::hypot(q1.unsqueeze(1), q2.unsqueeze(0));
  const at::Tensor fitted = (k_lr > 0.015).logical_and(k_lr < 0.2);
  // |LR_k|^2 over its mean is exponential, and the median of an exponential is ln 2 of its mean: robust against
  // sources.
  double amplitude = 1e-30;
  if (fitted.any().item<bool>()) {
    const at::Tensor ratio = y.abs().square().masked_select(fitted) / folded.masked_select(fitted);
    amplitude = std::max(median_of(ratio) / std::numbers::ln2, 1e-30);
  }
  const double sigma = std::max(model.noise, 1e-4 * rms(map - mu));
  const double noise = sigma * sigma * static_cast<double>(y.numel());

  const at::Tensor gain = amplitude * prior * transfer.conj() / static_cast<double>(s * s);
  const at::Tensor estimate = gain / (amplitude * folded + noise).repeat({s, s}) * y.repeat({s, s});
  return at::real(at::fft_ifft2(estimate)).slice(0, 0, n1 * s).slice(1, 0, n2 * s).contiguous() + mu;
}

}  // namespace cirrus::metrics
