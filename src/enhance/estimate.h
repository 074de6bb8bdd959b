// What a map tells about itself where its header is silent: noise, and the beam, from its power spectrum.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>

namespace cirrus::enhance {

/// Sigma of white noise a pixel: from the power beyond 0.4 cycles per pixel, where a beam of about two pixels has
/// removed the sky. lr: [h, w] float64, finite. An upper limit where the beam is smaller.
double estimate_noise(const at::Tensor& lr);

struct BeamEstimate {
  std::optional<double> fwhm;  ///< in pixels of the map; nullopt: the map does not tell
  std::string reason;          ///< for console and header
};
/// FWHM of a Gaussian beam from the roll-off of the power spectrum: A k^-b exp(-4 pi^2 sigma^2 k^2) times the pixel
/// window, plus noise, fitted to ring averages in the logarithm; b between 2.2 and 3.6.
BeamEstimate estimate_beam(const at::Tensor& lr);

}  // namespace cirrus::enhance
