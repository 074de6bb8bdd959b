// Difference kernel and area of Gaussian beams.
#include "sky/beam.h"

#include <cmath>
#include <string>

#include "base/errors.h"

namespace cirrus::sky {

double Beam::area() const { return 6.283185307179586476925 * sigma() * sigma(); }

Beam Beam::difference(const Beam& source) const {
  if (!(fwhm >= 0) || !(source.fwhm >= 0) || !std::isfinite(fwhm) || !std::isfinite(source.fwhm))
    throw Error(ExitCode::bad_data, "a beam of FWHM " + std::to_string(fwhm) + " or " + std::to_string(source.fwhm),
                "beams are finite and not negative");
  // Headers carry beams to a few digits: a difference at the level of rounding is no difference.
  const double square = fwhm * fwhm - source.fwhm * source.fwhm;
  if (square < -1e-6 * source.fwhm * source.fwhm)
    throw Error(ExitCode::bad_data,
                "the target beam (FWHM " + std::to_string(fwhm) + ") is smaller than the map's own (" +
                    std::to_string(source.fwhm) + ")",
                "give a target beam at least as large; a convolution cannot sharpen");
  return {square > 0 ? std::sqrt(square) : 0.0};
}

}  // namespace cirrus::sky
