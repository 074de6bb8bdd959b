// The editing that scale.cpp and scale_extras.cpp share: a header being scaled, and the record of what was changed.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "fits/scale.h"

namespace cirrus::fits {

struct HeaderEdit {
  Header& header;
  std::array<int, 2> axis;       ///< FITS numbers of the image axes
  std::array<double, 2> s;       ///< output pixels per input pixel
  std::array<double, 2> offset;  ///< input pixels added on the low side
  ScaleReport report;

  /// Sets a number where it stands; integers stay integers if they can. Nothing happens if the value is the same.
  void set_at(std::size_t position, double value);
  void add(std::string_view after, std::string_view key, double value);
  void erase(std::string_view key);
  void erase_if(const std::function<bool(std::string_view)>& match);
  void warn(std::string message) { report.warnings.push_back(std::move(message)); }
  double area() const { return s[0] * s[1]; }
};

/// CPDISja, DPja, D2IMDISj: refused, or removed with a HISTORY card.
void remove_pixel_distortion(HeaderEdit& edit, bool drop);
/// PIXSCALE and its relatives, PIXAR_SR, PIXAR_A2, PPBEAM, LAM_SCAL.
void scale_pixel_sizes(HeaderEdit& edit);
/// SIP polynomials (Shupe et al. 2005).
void scale_sip(HeaderEdit& edit);
/// The DSS plate solution: CNPIX1/2, XPIXELSZ, YPIXELSZ.
void scale_plate_solution(HeaderEdit& edit);
/// IRAF's LTMi_j and LTVj.
void scale_physical(HeaderEdit& edit);
/// Integer scaling, tile compression, checksums, image sections.
void remove_storage_keywords(HeaderEdit& edit);

}  // namespace cirrus::fits
