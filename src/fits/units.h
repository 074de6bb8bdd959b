// What a map's numbers mean when its pixels change: the class of BUNIT, the pixel size. Decisions carry their
// reason, so that programs can print them. Header cards in, numbers out; no file access.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fits/header.h"

namespace cirrus::fits {

enum class UnitClass {
  brightness,  ///< intensive: MJy/sr, K, mag of extinction, cm-2: the mean over pixels is conserved
  per_pixel,   ///< extensive: Jy/pixel, counts: the sum over pixels is conserved
  per_beam,    ///< Jy/beam: intensive while the unit's beam is unchanged
  unknown,     ///< absent or not understood: treated as intensive, with a warning
};
const char* name_of(UnitClass unit_class);  ///< "brightness", "pixel", "beam", "unknown" (the words of --unit-type)

struct UnitKind {
  UnitClass unit_class = UnitClass::unknown;
  bool logarithmic = false;  ///< mag/arcsec^2, dex, log(...): means over pixels have no meaning
};
/// The class of a unit string, however spelled (case, spaces, signs of exponents).
UnitKind classify_unit(std::string_view unit);

struct UnitDecision {
  UnitClass unit_class = UnitClass::unknown;
  std::string unit;                   ///< BUNIT as the header spells it, "" if absent
  std::string reason;                 ///< "BUNIT = 'MJy/sr': surface brightness, values kept"
  bool assumed = false;               ///< not stated by the header or the user
  std::vector<std::string> warnings;  ///< also where another keyword or a COMMENT names a unit
  /// Whether values are divided by the number of output pixels in an input pixel (block sum instead of block mean is
  /// conserved).
  bool divides() const { return unit_class == UnitClass::per_pixel; }
};
/// Decides from BUNIT, or as told by `override_class` (auto, brightness or sb, pixel, beam). SIGUNIT and COMMENT cards
/// are only reported. Throws usage for another word, bad_data for a logarithmic unit unless a class is given.
UnitDecision decide_unit(const Header& header, std::string_view override_class = "auto");

struct PixelScale {
  double x_arcsec = 0.0, y_arcsec = 0.0;  ///< length of a step of one pixel along each axis at the reference point
  double arcsec = 0.0;                    ///< square root of the pixel's area
  double anisotropy = 1.0;                ///< longer over shorter step
};
/// Pixel size from the linear part of the primary celestial WCS; nullopt if there is none (or it is singular).
std::optional<PixelScale> pixel_scale(const Header& header, int axis_x = 1, int axis_y = 2);

}  // namespace cirrus::fits
