// Lognormal and cascade families: log-intensity fields made in Fourier space. The cascade follows Robitaille+ 2020 (A&A
// 641, A138): octave by octave, each octave's amplitude multiplied by what the coarser ones built, so that structure is
// intermittent.
#include <cmath>

#include "sky/families.h"

namespace cirrus::sky {
namespace {

/// ln of an angular amplitude exp(e cos 2(theta - theta0)) that stretches structures across the direction theta0.
at::Tensor anisotropy(const Grid& grid, double strength, double angle) {
  const at::Tensor ky = at::fft_fftfreq(grid.height, 1.0, at::kFloat).unsqueeze(1);
  const at::Tensor kx = at::fft_rfftfreq(grid.width, 1.0, at::kFloat).unsqueeze(0);
  // cos 2(t - a) = cos 2a cos 2t + sin 2a sin 2t, and cos 2t = (kx^2 - ky^2)/k^2, sin 2t = 2 kx ky/k^2
  const at::Tensor kx2 = kx.square(), ky2 = ky.square();
  return ((kx2 - ky2) * std::cos(2 * angle) + (ky * kx) * (2 * std::sin(2 * angle))) * strength / (kx2 + ky2 + 1e-12);
}

}  // namespace

at::Tensor lognormal_field(const Canvas& canvas, double beta) {
  return standardised(canvas.crop(power_law_field(canvas.grid, canvas.address(1), beta)));
}

at::Tensor cascade_field(const Canvas& canvas, double beta) {
  Stream stream(canvas.address(0));
  const double intermittency = stream.uniform(0.1, 0.5);
  const double strength = stream.uniform() < 0.6 ? stream.uniform(0.2, 0.9) : 0.0;
  double angle = stream.uniform(0, 3.141592653589793);
  const double turn = stream.uniform(-0.5, 0.5);  // of the preferred direction, an octave

  const at::Tensor octave = at::log(squared_wave_numbers(canvas.grid)) * (0.5 / std::log(2.0));  // log2 k
  const at::Tensor modes = white_modes(canvas.grid, canvas.address(1));
  const at::Tensor power_law = octave * (-0.5 * beta * std::log(2.0));
  // Bands in log2 k: all below 1/64 cycles a pixel, then octaves up to 1/4, then the rest; ramps half an octave wide.
  const auto above = [&](double edge) { return ((octave - edge) * 2.0 + 0.5).clamp(0, 1); };
  at::Tensor log_intensity, lower = at::ones({}, at::kFloat);
  for (int band = 0; band < 6; ++band, angle += turn) {
    const at::Tensor upper = band < 5 ? above(band - 6.0) : at::zeros({}, at::kFloat);
    at::Tensor exponent = strength > 0 ? power_law + anisotropy(canvas.grid, strength, angle) : power_law;
    const at::Tensor detail = canvas.crop(field_of_modes(canvas.grid, modes, exponent.exp() * (lower - upper)));
    if (band == 0)
      log_intensity = detail;
    else
      log_intensity = log_intensity + detail * at::exp(standardised(log_intensity).clamp(-3, 3) * intermittency);
    lower = upper;
  }
  // Without a bound a few pixels in a hundred maps reach 10^5 times the median: from 3 sigma on the tail bends
  // towards 5.
  const at::Tensor excess = (standardised(log_intensity) - 3).clamp_min(0);
  return standardised(standardised(log_intensity).clamp_max(3) + at::tanh(excess * 0.5) * 2);
}

}  // namespace cirrus::sky
