// Ring-averaged power spectra and what is fitted to them.
#include "enhance/estimate.h"

#include <cmath>
#include <cstdio>
#include <vector>

#include "enhance/mirror.h"
#include "sky/beam.h"

namespace cirrus::enhance {
namespace {

struct Rings {
  std::vector<double> k, power, modes;
  std::vector<double> window;  ///< what a pixel's extent leaves of the power
};

/// Mean over directions of the squared window of a unit pixel.
double pixel_window(double k) {
  double sum = 0;
  for (int i = 0; i < 8; ++i) {
    const double angle = (i + 0.5) * M_PI / 16, kx = k * std::cos(angle), ky = k * std::sin(angle);
    const auto sinc = [](double x) { return x == 0 ? 1.0 : std::sin(M_PI * x) / (M_PI * x); };
    sum += std::pow(sinc(kx) * sinc(ky), 2);
  }
  return sum / 8;
}

/// Power of the mirrored map (no jump at its borders) in rings of 1/64 cycle per pixel, normalised so that white noise
/// of variance v has power v. The asinh of the map would mix scales; the map itself is used, with its brightest 0.5 %
/// clipped, so that one source does not decide.
Rings ring_power(const at::Tensor& lr) {
  constexpr std::int64_t kLargest = 1024, kRings = 32;
  at::Tensor map = lr;
  for (int axis = 0; axis < 2; ++axis)
    if (map.size(axis) > kLargest) map = map.narrow(axis, (map.size(axis) - kLargest) / 2, kLargest);
  const std::int64_t h = map.size(0), w = map.size(1);
  const auto limit = [&](double q) {
    const auto k = std::max<std::int64_t>(1, static_cast<std::int64_t>(q * static_cast<double>(map.numel())));
    return std::get<0>(map.flatten().kthvalue(k)).item<double>();
  };
  map = map.clamp(limit(0.0025), limit(0.9975));
  const at::Tensor spectrum = at::fft_fft2(mirror_pad(map - map.mean(), 0, h, 0, w)).abs().square().contiguous();
  Rings rings{std::vector<double>(kRings), std::vector<double>(kRings), std::vector<double>(kRings), {}};
  const auto p = spectrum.accessor<double, 2>();
  for (std::int64_t y = 0; y < 2 * h; ++y)
    for (std::int64_t x = 0; x < 2 * w; ++x) {
      const double ky = static_cast<double>(std::min(y, 2 * h - y)) / static_cast<double>(2 * h),
                   kx = static_cast<double>(std::min(x, 2 * w - x)) / static_cast<double>(2 * w);
      const double k = std::hypot(ky, kx);
      const auto i = static_cast<std::size_t>(k * 64);
      if (k <= 0 || i >= kRings) continue;
      rings.k[i] += k;
      rings.power[i] += p[y][x];
      rings.modes[i] += 1;
    }
  Rings used;
  for (std::size_t i = 0; i < kRings; ++i)
    if (rings.modes[i] > 0) {
      used.k.push_back(rings.k[i] / rings.modes[i]);
      used.power.push_back(std::max(rings.power[i] / rings.modes[i] / static_cast<double>(4 * h * w), 1e-300));
      used.modes.push_back(rings.modes[i] / 4);  // a mirrored map has a quarter of independent modes
      used.window.push_back(pixel_window(used.k.back()));
    }
  return used;
}

/// Weighted mean square of ln(power / model), amplitude A free, for one (slope, sigma, noise).
double misfit(const Rings& r, double slope, double sigma, double noise) {
  // ln of the amplitude: the weighted mean where the sky is well above the noise.
  std::vector<double> shape;
  for (std::size_t i = 0; i < r.k.size(); ++i)
    shape.push_back(std::pow(r.k[i], -slope) * std::exp(-4 * M_PI * M_PI * sigma * sigma * r.k[i] * r.k[i]) *
                    r.window[i]);
  double log_a = 0, weight_sum = 0;
  for (std::size_t i = 0; i < r.k.size(); ++i)
    if (r.k[i] < 0.25 && r.power[i] > 2 * noise) {
      const double w = std::sqrt(r.modes[i]);
      log_a += w * std::log((r.power[i] - noise) / shape[i]);
      weight_sum += w;
    }
  if (weight_sum == 0) return 1e300;
  const double a = std::exp(log_a / weight_sum);
  double sum = 0, total = 0;
  for (std::size_t i = 0; i < r.k.size(); ++i) {
    const double w = std::sqrt(r.modes[i]), e = std::log(r.power[i] / (a * shape[i] + noise));
    sum += w * e * e;
    total += w;
  }
  return sum / total;
}

double power_beyond(const Rings& r, double k) {
  double sum = 0, weight = 0;
  for (std::size_t i = 0; i < r.k.size(); ++i)
    if (r.k[i] > k) {
      sum += r.modes[i] * r.power[i];
      weight += r.modes[i];
    }
  return weight > 0 ? sum / weight : 0.0;
}

/// The largest rectangle of a map without missing pixels; holes with few others around count as seen.
at::Tensor well_observed(const at::Tensor& lr, const at::Tensor& missing) {
  if (!missing.defined() || !missing.any().item<bool>()) return lr;
  const at::Tensor around = at::avg_pool2d(missing.to(at::kFloat).unsqueeze(0), 5, 1, 2, false, false).squeeze(0);
  const at::Tensor hidden = missing.logical_and(around > 0.2).contiguous();
  const auto gap = hidden.accessor<bool, 2>();
  const std::int64_t h = lr.size(0), w = lr.size(1);
  // Row by row: how far up each column is free, and the widest rectangle under that skyline that ends here.
  std::vector<std::int64_t> up(static_cast<std::size_t>(w) + 1, 0), open;
  std::int64_t most = 0, top = 0, left = 0, rows = 0, columns = 0;
  for (std::int64_t y = 0; y < h; ++y) {
    open.clear();
    for (std::int64_t x = 0; x <= w; ++x) {
      const auto at = static_cast<std::size_t>(x);
      if (x < w) up[at] = gap[y][x] ? 0 : up[at] + 1;
      while (!open.empty() && up[static_cast<std::size_t>(open.back())] >= up[at]) {
        const std::int64_t tall = up[static_cast<std::size_t>(open.back())];
        open.pop_back();
        const std::int64_t from = open.empty() ? 0 : open.back() + 1;
        if (tall * (x - from) > most)
          most = tall * (x - from), top = y - tall + 1, left = from, rows = tall, columns = x - from;
      }
      open.push_back(x);
    }
  }
  return lr.narrow(0, top, rows).narrow(1, left, columns).contiguous();
}

}  // namespace

double estimate_noise(const at::Tensor& lr, const at::Tensor& missing) {
  at::Tensor differences = lr, hidden = missing.defined() ? missing : at::zeros(lr.sizes(), at::kBool);
  double gain = 1;  // squared, of white noise
  for (int axis = 0; axis < 2; ++axis)
    for (std::int64_t order = 1; order <= 3 && differences.size(axis) > 1; ++order) {
      const auto neighbour = [&](const at::Tensor& map, std::int64_t from) {
        return map.narrow(axis, from, map.size(axis) - 1);
      };
      differences = neighbour(differences, 1) - neighbour(differences, 0);
      hidden = neighbour(hidden, 1).logical_or(neighbour(hidden, 0));
      const auto n = static_cast<double>(order);
      gain *= (4 * n - 2) / n;  // binomial(2n, n) over the one before
    }
  const at::Tensor seen =
      hidden.all().item<bool>() ? differences.flatten() : differences.masked_select(hidden.logical_not());
  const double typical = 1.4826 * seen.abs().median().item<double>();
  return (typical > 0 ? typical : seen.square().mean().sqrt().item<double>()) / std::sqrt(gain);
}

BeamEstimate estimate_beam(const at::Tensor& map, const at::Tensor& missing) {
  constexpr std::int64_t kLeast = 32;
  at::Tensor lr = well_observed(map, missing);
  // A hole in the middle of a small map: filled, it disturbs less than half a map would.
  if (std::min(lr.size(0), lr.size(1)) < kLeast && missing.defined() &&
      missing.to(at::kFloat).mean().item<float>() < 0.05f)
    lr = map;
  if (std::min(lr.size(0), lr.size(1)) < kLeast)
    return {std::nullopt, "the map is too small to show where its power spectrum rolls off"};
  const Rings r = ring_power(lr);
  const double floor = power_beyond(r, 0.4);
  double best = 1e300, best_fwhm = 0, without = 1e300;
  for (double fwhm = 0; fwhm <= 6.0001; fwhm += 0.1)
    for (double slope = 2.2; slope <= 3.6001; slope += 0.1)
      for (double share : {0.0, 0.25, 0.5, 0.75, 0.9, 1.0}) {
        const double m = misfit(r, slope, fwhm / sky::kFwhmPerSigma, share * floor);
        if (m < best) best = m, best_fwhm = fwhm;
        if (fwhm == 0) without = std::min(without, m);
      }
  char text[160];
  if (best_fwhm < 1.0 || without < 1.5 * best + 0.005) {
    std::snprintf(text, sizeof(text),
                  "the power spectrum shows no roll-off (misfit %.3f without a beam, %.3f with the best)", without,
                  best);
    return {std::nullopt, text};
  }
  if (best > 0.15 || best_fwhm > 5.9) {
    std::snprintf(text, sizeof(text),
                  "the power spectrum is not that of dust seen through a Gaussian beam (misfit %.3f)", best);
    return {std::nullopt, text};
  }
  std::snprintf(text, sizeof(text),
                "the power spectrum rolls off as through a beam of %.1f pixels (misfit %.3f, %.3f without a beam)",
                best_fwhm, best, without);
  return {best_fwhm, text};
}

}  // namespace cirrus::enhance
