// Does the output's header put every pixel where the input's did? Asked of WCSLIB, which takes no part in writing
// headers. Without WCSLIB in the build the checks report "no usable WCS" with that reason.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fits/header.h"

namespace cirrus::fits {

struct PixelPoint {
  double x = 0.0, y = 0.0;  ///< FITS pixel coordinates: the first pixel's centre is 1, its outer corner 0.5
};
struct SkyPoint {
  double lon = 0.0, lat = 0.0;  ///< degrees in the header's frame; for a linear WCS its first two world coordinates
  bool valid = false;           ///< false where the projection has no sky (corners of an all-sky map)
};

/// "CDELT1 = 0.0 makes no sense": what makes numbers of a WCS useless though WCSLIB takes them, or takes a default in
/// their place: no number, a step of zero, a reference pixel too far away for a double. "" if there is nothing.
std::string senseless_card(const Header& header, char alternate = ' ', int axis_x = 1, int axis_y = 2);

struct SkyPositions {
  bool usable = false;
  std::string reason;  ///< why there is no usable WCS
  bool celestial = false;
  std::vector<SkyPoint> points;
};
/// Sky positions of pixels. Never throws on a bad header: usable is false, with the reason.
SkyPositions pixel_to_sky(const Header& header, std::span<const PixelPoint> points, char alternate = ' ',
                          int axis_x = 1, int axis_y = 2);

/// Corners (outer ones), edge centres and centre of an image.
std::vector<PixelPoint> nine_points(std::int64_t width, std::int64_t height);

struct WcsCheck {
  bool usable = false;
  std::string reason;
  double max_distance_px = 0.0;  ///< output pixels; infinite if a point has a position in one header only
  int points = 0;                ///< compared points, all alternates together
  bool ok(double tolerance_px = 1e-3) const { return usable && max_distance_px < tolerance_px; }
};
/// Compares an input header with the header made from it by scale_header(sx, sy), at nine points of the input image of
/// width x height pixels: the primary WCS and every alternate.
WcsCheck compare_wcs(const Header& input, const Header& output, std::int64_t width, std::int64_t height, double sx,
                     double sy, double offset_x = 0.0, double offset_y = 0.0, int axis_x = 1, int axis_y = 2);

}  // namespace cirrus::fits
