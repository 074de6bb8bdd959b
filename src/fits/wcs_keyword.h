// Names of WCS keywords taken apart (CD1_2A, PC01_02, CD001002, CRPIX1P), and the linear part of a header's WCS in the
// form WCSLIB would use. What scale.h and units.h share; nobody outside fits/ needs it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "fits/header.h"

namespace cirrus::fits {

struct WcsKeyword {
  std::string_view family;  ///< "CRPIX", "CDELT", "CROTA", "CD", "PC", "CTYPE", "CRVAL", "CUNIT", "CPDIS", "LTM", ...
  int i = 0;                ///< first index
  int j = 0;                ///< second index, 0 if the family has one
  char alternate = ' ';
};

/// The parts of a WCS keyword in any spelling, or nullopt for other keywords.
std::optional<WcsKeyword> parse_wcs_keyword(std::string_view key);

/// Whether a description of coordinates exists where this keyword stands (LONPOLE or CUNIT alone make none).
bool describes_coordinates(const WcsKeyword& word);

/// Which matrix WCSLIB uses: PC beats CD, CD beats CROTA (FITS allows only one).
enum class LinearForm { cdelt, pc, cd, crota };

struct LinearKeywords {
  LinearForm form = LinearForm::cdelt;
  bool any = false;  ///< this alternate describes coordinates at all
  bool has_cd = false, has_pc = false, has_cdelt = false, has_crota = false;
  bool sequent = false;       ///< CQDISia: a distortion after the matrix
  bool mixes = false;         ///< PC couples one of the image axes with another axis
  bool off_diagonal = false;  ///< PC couples the two image axes
};
LinearKeywords linear_keywords(const Header& header, char alternate, int axis_x, int axis_y);

/// Derivatives of the intermediate world coordinates: {dx/dp1, dx/dp2, dy/dp1, dy/dp2}, rows and columns of the two
/// image axes.
std::array<double, 4> linear_matrix(const Header& header, int axis_x, int axis_y);

}  // namespace cirrus::fits
