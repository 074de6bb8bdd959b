// Maps the tests of metrics/ are made of: white noise and Gaussian random fields from addressed random numbers,
// dust-like skies, and the maps of the validation set.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "fits/image.h"

namespace cirrus::tests {

/// Independent standard normal pixels.
inline at::Tensor white_noise(std::vector<int64_t> shape, std::uint64_t seed) {
  at::Tensor map = at::empty(shape, at::kDouble);
  Stream stream(Address(seed, Purpose::bootstrap));
  for (int64_t i = 0; i < map.numel(); ++i) map.mutable_data_ptr<double>()[i] = stream.normal();
  return map;
}

/// A periodic Gaussian field [n, n] of zero mean and unit variance whose Fourier amplitudes are `amplitude(k)`, k in
/// cycles per pixel.
template <class Amplitude>
at::Tensor gaussian_field(int64_t n, std::uint64_t seed, Amplitude amplitude) {
  const at::Tensor f = at::fft_fftfreq(n, 1.0, at::kDouble);
  const at::Tensor k = at::hypot(f.unsqueeze(1), f.unsqueeze(0)).contiguous();
  at::Tensor filter = at::empty_like(k);
  for (int64_t i = 0; i < k.numel(); ++i)
    filter.mutable_data_ptr<double>()[i] = i == 0 ? 0 : amplitude(k.const_data_ptr<double>()[i]);
  const at::Tensor field = at::real(at::fft_ifft2(at::fft_fft2(white_noise({n, n}, seed)) * filter)).contiguous();
  return field / field.std(false);
}

/// A lognormal sky with a k^-2.9 spectrum under a beam of 2.3 pixels, not periodic.
inline at::Tensor dust_sky(std::uint64_t seed, int64_t n = 256) {
  const double sigma = 2.3 / 2.3548200450309493;
  const at::Tensor field = gaussian_field(2 * n, seed, [](double k) { return std::pow(k, -1.45); });
  const at::Tensor f = at::fft_fftfreq(2 * n, 1.0, at::kDouble);
  const at::Tensor kk = f.square().unsqueeze(1) + f.square().unsqueeze(0);
  const at::Tensor beam = (-2 * M_PI * M_PI * sigma * sigma * kk).exp();
  const at::Tensor sky = at::real(at::fft_ifft2(at::fft_fft2((0.7 * field).exp()) * beam));
  return sky.narrow(0, 0, n).narrow(1, 0, n).contiguous();
}

inline at::Tensor block_mean(const at::Tensor& map, int64_t s) {
  return map.reshape({map.size(0) / s, s, map.size(1) / s, s}).mean(at::IntArrayRef{1, 3});
}

inline double largest(const at::Tensor& map) { return map.abs().max().item<double>(); }

/// A map of the validation set, or nothing (and a sentence) where CIRRUS_TEST_DATA does not say where it is.
inline std::optional<at::Tensor> validation_map(const std::string& name) {
  const char* folder = std::getenv("CIRRUS_TEST_DATA");
  if (!folder) {
    std::cout << "skipped: set CIRRUS_TEST_DATA to the folder of test data to score its maps\n";
    return std::nullopt;
  }
  fits::Image image = fits::read_image(std::string(folder) + "/validation/" + name);
  return at::from_blob(image.pixels.data(), {image.height, image.width}, at::kDouble).clone();
}

}  // namespace cirrus::tests
