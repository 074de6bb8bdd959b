// Angles as users write them: 18.2arcsec, 5arcmin, 0.01deg; a bare number is in arcseconds.
#pragma once

#include <string>
#include <string_view>

namespace cirrus::sky {

/// Arcseconds of "18.2arcsec", "5arcmin", "0.01deg", "1e-3rad", "500mas" or a bare number of arcseconds; spaces around
/// number and unit are allowed. Throws Error 64 on anything else, infinite and NaN included.
double arcsec_of(std::string_view text);

/// "18.2arcsec", "5arcmin", "1.5deg": the largest of the three units in which the number is at least 1, 6 digits.
std::string angle_text(double arcsec);

}  // namespace cirrus::sky
