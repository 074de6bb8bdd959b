// Gaussian beams: FWHM and sigma, the difference kernel between two beams, beam area. Plain arithmetic in any one
// angular unit.
#pragma once

namespace cirrus::sky {

/// FWHM of a Gaussian over its sigma: sqrt(8 ln 2).
inline constexpr double kFwhmPerSigma = 2.3548200450309493;

/// A circular Gaussian beam. `fwhm` is in arcsec or pixels, as the caller's other numbers are; 0 is a delta function.
struct Beam {
  double fwhm = 0;

  double sigma() const { return fwhm / kFwhmPerSigma; }
  static Beam from_sigma(double sigma) { return {sigma * kFwhmPerSigma}; }

  /// Solid angle, 2 pi sigma^2, in the square of the unit of `fwhm`: Jy/beam = I * area.
  double area() const;

  /// The kernel that takes a map seen with `source` to this beam: fwhm^2 = this^2 - source^2.
  /// Throws Error 65 if this beam is smaller than the source's: a convolution cannot sharpen.
  Beam difference(const Beam& source) const;
};

}  // namespace cirrus::sky
