// Fourier synthesis. Half of a real field's modes are drawn (rfft layout); the self-conjugate columns lose half their
// power in the inverse transform, which is given back here.
#include "sky/gaussian_field.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "sky/normal.h"

namespace cirrus::sky {
namespace {

std::int64_t fast_size(std::int64_t n) {
  for (n += n % 2;; n += 2) {
    std::int64_t m = n;
    for (std::int64_t p : {2, 3, 5})
      while (m % p == 0) m /= p;
    if (m == 1) return n;
  }
}

}  // namespace

Grid Grid::padded(std::int64_t height, std::int64_t width, std::int64_t margin) {
  const auto size = [&](std::int64_t n) { return fast_size(std::max({2 * n, n + margin, std::int64_t{64}})); };
  return {size(height), size(width)};
}

at::Tensor squared_wave_numbers(const Grid& grid) {
  const std::int64_t half = grid.width / 2 + 1;
  at::Tensor out = at::empty({grid.height, half}, at::kFloat);
  float* k2 = out.data_ptr<float>();
  for (std::int64_t y = 0; y < grid.height; ++y) {
    const double ky =
        static_cast<double>(2 * y <= grid.height ? y : y - grid.height) / static_cast<double>(grid.height);
    const auto ky2 = static_cast<float>(ky * ky);
    const float dx = 1.0f / static_cast<float>(grid.width);
    for (std::int64_t x = 0; x < half; ++x) {
      const float kx = static_cast<float>(x) * dx;
      k2[y * half + x] = ky2 + kx * kx;
    }
  }
  k2[0] = std::min(k2[1], grid.height > 1 ? k2[half] : k2[1]);
  return out;
}

at::Tensor white_modes(const Grid& grid, const Address& address) {
  const std::int64_t half = grid.width / 2 + 1;
  at::Tensor modes = at::empty({grid.height, half, 2}, at::kFloat);
  float* values = modes.data_ptr<float>();
  fill_normal(address, std::span<float>(values, static_cast<std::size_t>(modes.numel())));
  // |X|^2 of white noise of unit variance is height * width, shared by the real and imaginary part.
  modes.mul_(std::sqrt(0.5 * static_cast<double>(grid.height * grid.width)));
  for (std::int64_t y = 0; y < grid.height; ++y)
    for (std::int64_t x : {std::int64_t{0}, half - 1})
      for (std::int64_t c = 0; c < 2; ++c) values[(y * half + x) * 2 + c] *= 1.41421356f;
  values[0] = values[1] = 0;
  return at::view_as_complex(modes);
}

at::Tensor field_of_modes(const Grid& grid, const at::Tensor& modes, const at::Tensor& amplitude) {
  return at::fft_irfft2(modes * amplitude, at::IntArrayRef({grid.height, grid.width}));
}

at::Tensor power_law_field(const Grid& grid, const Address& address, double slope, double cutoff) {
  const at::Tensor k2 = squared_wave_numbers(grid);
  at::Tensor amplitude = at::log(k2).mul_(-0.25 * slope);
  if (cutoff > 0) amplitude.sub_(k2, 0.5 / (cutoff * cutoff));
  return field_of_modes(grid, white_modes(grid, address), amplitude.exp_());
}

at::Tensor standardised(const at::Tensor& field) {
  const at::Tensor flat = field.contiguous();
  const float* v = flat.const_data_ptr<float>();
  const std::int64_t n = flat.numel();
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += v[i];
  const double mean = sum / static_cast<double>(n);
  for (std::int64_t i = 0; i < n; ++i) squares += (v[i] - mean) * (v[i] - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(n));
  return (flat - mean) / std::max(deviation, 1e-30);
}

double root_mean_square(const at::Tensor& field) {
  const at::Tensor flat = field.contiguous();
  const float* v = flat.const_data_ptr<float>();
  double squares = 0;
  for (std::int64_t i = 0; i < flat.numel(); ++i) squares += double{v[i]} * v[i];
  return std::sqrt(squares / static_cast<double>(flat.numel()));
}

}  // namespace cirrus::sky
