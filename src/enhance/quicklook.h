// Pictures of maps for people: panels side by side, one stretch, a colour bar with the unit under each, row 1 at the
// bottom as astronomers expect. Reading maps and naming files is the caller's. OpenCV stays inside quicklook.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace cirrus::enhance {

/// One map: row-major, first row = FITS row 1, NaN where there is no value.
struct Panel {
  std::string title;
  std::span<const float> pixels;  ///< must live until the picture is drawn
  std::int64_t width = 0, height = 0;
  /// Limits and colour bar of its own (a standard deviation beside intensities) instead of those all others share.
  bool own_limits = false;
};

struct QuicklookOptions {
  std::string stretch = "asinh";  ///< one of kStretches; zscale: linear between IRAF's zscale limits
  std::string cmap = "inferno";   ///< one of kColorMaps
  std::string unit{};             ///< under the colour bars
  std::int64_t side = 512;        ///< longer side of a panel on the picture, in pixels
  bool sixteen_bit = false;       ///< 16 bits a channel instead of 8
};

inline constexpr const char* kStretches[] = {"asinh", "log", "linear", "zscale"};
inline constexpr const char* kColorMaps[] = {"gray", "inferno", "magma", "viridis", "cubehelix"};

/// Values shown as the first and the last colour.
struct Limits {
  double low = std::numeric_limits<double>::quiet_NaN(), high = std::numeric_limits<double>::quiet_NaN();
};

/// Limits of finite values: the 0.5 and 99.5 percentiles, or IRAF's zscale (contrast 0.25, 1000 samples) as astropy's
/// ZScaleInterval finds it. NaN for both if no value is finite.
Limits percentile_limits(std::vector<float> values);
Limits zscale_limits(std::span<const float> values);

/// Where a value lies between the limits after the stretch, in [0, 1]; 0.5 if the limits are equal (a constant map).
/// asinh: softening 0.1 of the range; log: log(1 + 1000 t); as astropy.visualization has them.
double stretched(double value, const Limits& limits, const std::string& stretch);
/// Its inverse: the value shown at a place of the colour bar.
double unstretched(double place, const Limits& limits, const std::string& stretch);

/// The picture as PNG bytes. Maps larger than a panel are averaged (around missing pixels), smaller ones keep square
/// pixels; missing pixels have one flat colour that is in none of the colour map. A map without any value is all that
/// colour. Throws Error(internal) for sizes that do not fit the pixels, Error(usage) for an unknown stretch or map.
std::string draw_panels(const std::vector<Panel>& panels, const QuicklookOptions& options);

}  // namespace cirrus::enhance
