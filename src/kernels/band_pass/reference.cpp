// The band-pass cascade as ATen convolutions, and the constants both implementations share.
#include "kernels/band_pass.h"

#include <cmath>

namespace cirrus::kernels {

std::vector<float> gaussian_weights(double sigma) {
  const int radius = static_cast<int>(std::ceil(3.5 * sigma));
  std::vector<double> w;
  double sum = 0;
  for (int i = -radius; i <= radius; ++i) sum += w.emplace_back(std::exp(-0.5 * i * i / (sigma * sigma)));
  std::vector<float> out;
  for (double v : w) out.push_back(static_cast<float>(v / sum));
  return out;
}

int band_reach() { return static_cast<int>(gaussian_weights(kBandSigmas.back()).size() / 2); }

std::array<double, kBands> band_noise_gains() {
  // The noise in a band is the response to a unit impulse, summed in quadrature.
  const int n = 4 * band_reach() + 1;
  at::Tensor impulse = at::zeros({1, 1, n, n}, at::kFloat);
  impulse[0][0][n / 2][n / 2] = 1;
  const at::Tensor rms = reference::band_pass(impulse).to(at::kDouble).square().sum({0, 2, 3}).sqrt();
  std::array<double, kBands> out{};
  for (int b = 0; b < kBands; ++b) out[static_cast<std::size_t>(b)] = rms[b].item<double>();
  return out;
}

namespace reference {

at::Tensor band_pass(const at::Tensor& x) {
  std::vector<at::Tensor> blurred{x};
  for (double sigma : kBandSigmas) {
    const std::vector<float> w = gaussian_weights(sigma);
    const std::int64_t n = static_cast<std::int64_t>(w.size());
    const at::Tensor k = at::tensor(w).to(x.options());
    blurred.push_back(at::conv2d(at::conv2d(x, k.view({1, 1, n, 1}), {}, 1, at::IntArrayRef{n / 2, 0}),
                                 k.view({1, 1, 1, n}), {}, 1, at::IntArrayRef{0, n / 2}));
  }
  blurred.push_back(at::zeros_like(x));
  std::vector<at::Tensor> bands;
  for (std::size_t b = 0; b + 1 < blurred.size(); ++b) bands.push_back(blurred[b] - blurred[b + 1]);
  return at::cat(bands, 1);
}

}  // namespace reference
}  // namespace cirrus::kernels
