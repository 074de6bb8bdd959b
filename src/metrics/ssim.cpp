// Window moments by separable convolution without padding, so that only whole windows count.
#include "metrics/ssim.h"

#include "metrics/map.h"
#include "metrics/quantile.h"

namespace cirrus::metrics {
namespace {

constexpr int kRadius = 5;
constexpr double kSigma = 1.5;

at::Tensor window_mean(const at::Tensor& map) {
  const at::Tensor offset = at::arange(-kRadius, kRadius + 1, at::kDouble);
  at::Tensor weights = (-0.5 * (offset / kSigma).square()).exp();
  weights = weights / weights.sum();
  const at::Tensor rows = at::conv2d(map.unsqueeze(0).unsqueeze(0), weights.reshape({1, 1, -1, 1}));
  return at::conv2d(rows, weights.reshape({1, 1, 1, -1})).squeeze(0).squeeze(0);
}

}  // namespace

double data_range(const at::Tensor& truth) {
  const std::vector<double> ends = quantiles(truth, std::array{0.005, 0.995});
  return ends[1] - ends[0];
}

std::optional<double> ssim(const at::Tensor& output, const at::Tensor& truth) {
  const at::Tensor x = as_map(output, "the output"), t = as_map(truth, "the truth");
  if (t.size(0) < 2 * kRadius + 1 || t.size(1) < 2 * kRadius + 1) return std::nullopt;
  const double range = data_range(t), c1 = std::pow(0.01 * range, 2), c2 = std::pow(0.03 * range, 2);
  const at::Tensor mx = window_mean(x), mt = window_mean(t);
  const at::Tensor vx = window_mean(x * x) - mx.square(), vt = window_mean(t * t) - mt.square();
  const at::Tensor cov = window_mean(x * t) - mx * mt;
  const at::Tensor map = (2 * mx * mt + c1) * (2 * cov + c2) / ((mx.square() + mt.square() + c1) * (vx + vt + c2));
  return map.mean().item<double>();
}

double psnr(const at::Tensor& output, const at::Tensor& truth) {
  const at::Tensor x = as_map(output, "the output"), t = as_map(truth, "the truth");
  return 20 * std::log10(data_range(t) / rms(x - t));
}

}  // namespace cirrus::metrics
