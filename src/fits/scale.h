// Header arithmetic for a pixel grid made finer or coarser by a factor, with optional padding or cropping: every
// keyword that carries the pixel is changed where it stands, in the formalism the header uses (CD stays CD). FITS WCS
// papers I and II; SIP: Shupe et al. 2005. Pixel edges map as x' - 1/2 = s (x + p - 1/2).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fits/header.h"

namespace cirrus::fits {

struct ScaleOptions {
  int axis_x = 1, axis_y = 2;             ///< FITS axes the two factors belong to (Image::axis_x, axis_y)
  double offset_x = 0.0, offset_y = 0.0;  ///< p: input pixels added on the low side before scaling (negative: cropped)
  bool drop_distortion = false;           ///< remove lookup-table distortions instead of refusing them
};

struct ScaleReport {
  std::vector<std::string> warnings;  ///< what a user should know
  std::vector<std::string> changes;   ///< every keyword changed or removed, one short line each
};

/// Rewrites the header for an image with sx, sy times as many pixels along its axes (4 = enhance by 4, 0.25 = block
/// mean of 4). NAXISn of the two axes become floor(s NAXISn). Primary WCS and all alternates; PC, CD and CROTA forms in
/// every spelling; SIP; DSS plate solution; LTM/LTV; pixel sizes and areas. Removes BSCALE, BZERO, BLANK,
/// tile-compression keywords, CHECKSUM, DATASUM and image sections (the last with a HISTORY card). With sx = sy = 1 and
/// offsets this is padding or cropping. Throws bad_data for a distortion given in pixels (CPDISja, D2IMDISj) unless
/// drop_distortion, internal for factors that are not finite and positive; the header is then unchanged.
ScaleReport scale_header(Header& header, double sx, double sy, const ScaleOptions& options = {});

/// Alternate WCS letters that the header describes: ' ' for the primary, then 'A'..'Z'.
std::string wcs_alternates(const Header& header);

}  // namespace cirrus::fits
