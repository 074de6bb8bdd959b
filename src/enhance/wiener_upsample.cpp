// Wiener filter by folding the prior's spectrum onto the low-resolution grid, inverted on a small periodic grid and
// cut.
#include "enhance/wiener_upsample.h"

#include "base/errors.h"
#include "enhance/mirror.h"
#include "sky/beam.h"

namespace cirrus::enhance {
namespace {

constexpr double kPi = 3.14159265358979323846;

/// Frequencies in cycles per pixel of an n-point transform.
at::Tensor frequencies(std::int64_t n) { return at::fft_fftfreq(n, 1.0, at::TensorOptions(at::kDouble)); }

/// Transfer of beam difference and pixel mean along one axis at frequencies k (cycles per output pixel): complex, since
/// the mean over s pixels begins at the first.
at::Tensor line_transfer(const at::Tensor& k, const Sampling& sampling) {
  at::Tensor sum = at::zeros({k.size(0)}, at::kComplexDouble);
  for (std::int64_t j = 0; j < sampling.factor; ++j) {
    const at::Tensor phase = 2 * kPi * static_cast<double>(j) * k;
    sum += at::complex(phase.cos(), phase.sin());
  }
  const double sigma = sampling.difference_sigma();
  return sum / static_cast<double>(sampling.factor) * (-2 * (kPi * sigma * k).square()).exp();
}

/// The prior's spectrum (A = 1) on a grid of frequencies.
at::Tensor prior_spectrum(const at::Tensor& ky, const at::Tensor& kx, const Sampling& sampling) {
  const at::Tensor k2 = ky.square().unsqueeze(1) + kx.square().unsqueeze(0);
  const double sigma = sampling.beam_out / sky::kFwhmPerSigma;
  at::Tensor p = (k2 + 1e-7).pow(-kPriorSlope / 2) * (-4 * kPi * kPi * sigma * sigma * k2).exp();
  return at::clamp_min(p, p.max().item<double>() * 1e-16);
}

struct Spectra {
  at::Tensor transfer;  ///< H on the output grid [s n, s m]
  at::Tensor prior;     ///< P on the output grid
  at::Tensor folded;    ///< sum over aliases of |H|^2 P / s^4 on the low-resolution grid [n, m]
};
Spectra spectra(std::int64_t n, std::int64_t m, const Sampling& sampling) {
  const std::int64_t s = sampling.factor;
  const at::Tensor ky = frequencies(n * s), kx = frequencies(m * s);
  Spectra out;
  out.transfer = line_transfer(ky, sampling).unsqueeze(1) * line_transfer(kx, sampling).unsqueeze(0);
  out.prior = prior_spectrum(ky, kx, sampling);
  out.folded = (out.transfer.abs().square() * out.prior).reshape({s, n, s, m}).sum(at::IntArrayRef{0, 2}) /
               static_cast<double>(s * s * s * s);
  return out;
}

}  // namespace

double Sampling::difference_sigma() const {
  return beam_in > 0 ? sky::Beam{beam_in}.difference(sky::Beam{beam_out}).sigma() : 0.0;
}

double fit_prior_to_noise(const at::Tensor& lr, double noise, const Sampling& sampling) {
  // A window of at most 512 pixels a side: a map's amplitude is a local matter, and memory stays bounded.
  constexpr std::int64_t kLargest = 512;
  at::Tensor map = lr;
  for (int axis = 0; axis < 2; ++axis)
    if (map.size(axis) > kLargest) map = map.narrow(axis, (map.size(axis) - kLargest) / 2, kLargest);
  const std::int64_t h = map.size(0), w = map.size(1);
  const at::Tensor mirrored = mirror_pad(map - map.mean(), 0, h, 0, w);
  const at::Tensor power = at::fft_fft2(mirrored).abs().square();
  const at::Tensor folded = spectra(2 * h, 2 * w, sampling).folded;
  const at::Tensor k = at::hypot(frequencies(2 * h).unsqueeze(1), frequencies(2 * w).unsqueeze(0));
  at::Tensor chosen = (k > 0.015).logical_and(k < 0.2);
  if (!chosen.any().item<bool>()) chosen = k > 0;  // maps of a few pixels
  // Power of a mode is exponentially distributed: its median is ln 2 times its mean.
  const double amplitude = (power / folded).masked_select(chosen).median().item<double>() / std::log(2.0);
  return std::max(amplitude, 1e-290) / (noise * noise * static_cast<double>(power.numel()));
}

at::Tensor wiener_filter(double prior_to_noise, const Sampling& sampling) {
  const std::int64_t s = sampling.factor, n = 4 * kWienerReach, r = kWienerReach, taps = 2 * r + 1;
  const Spectra f = spectra(n, n, sampling);
  const at::Tensor gain = prior_to_noise * f.prior * f.transfer.conj() / static_cast<double>(s * s) /
                          (prior_to_noise * f.folded + 1).repeat({s, s});
  // Response on the output grid to a unit impulse in low-resolution pixel (0, 0).
  const at::Tensor response = at::real(at::fft_ifft2(gain)).contiguous();
  const auto g = response.accessor<double, 2>();
  std::vector<double> taper;
  for (std::int64_t i = -r; i <= r;
       ++i) {  // flat to three quarters of the reach, then a cosine to zero beyond the last tap
    const double t = (std::abs(static_cast<double>(i)) / static_cast<double>(r + 1) - 0.75) / 0.25;
    taper.push_back(t <= 0 ? 1.0 : 0.5 * (1 + std::cos(kPi * t)));
  }
  at::Tensor filter = at::empty({s * s, 1, taps, taps}, at::kDouble);
  auto out = filter.accessor<double, 4>();
  const std::int64_t size = n * s;
  for (std::int64_t py = 0; py < s; ++py)
    for (std::int64_t px = 0; px < s; ++px)
      for (std::int64_t i = 0; i < taps; ++i)
        for (std::int64_t j = 0; j < taps;
             ++j)  // output pixel (py, px) of block 0 from low-resolution pixel (i - r, j - r)
          out[py * s + px][0][i][j] =
              taper[static_cast<std::size_t>(i)] * taper[static_cast<std::size_t>(j)] *
              g[((py - s * (i - r)) % size + size) % size][((px - s * (j - r)) % size + size) % size];
  return (filter / filter.sum(at::IntArrayRef{1, 2, 3}, true)).to(at::kFloat);
}

at::Tensor wiener_upsample(const at::Tensor& lr, const at::Tensor& filter, std::int64_t factor) {
  const at::Tensor padded = mirror_pad(lr, kWienerReach, kWienerReach, kWienerReach, kWienerReach);
  return at::pixel_shuffle(at::conv2d(padded.unsqueeze(0).unsqueeze(0), filter), factor).squeeze(0).squeeze(0);
}

}  // namespace cirrus::enhance
