// The beam that a header states: what a map was seen through, and what a per-beam unit refers to. The two differ in
// maps that Cirrus sharpened: BMAJ stays the unit's beam there, SRBMAJ is the resolution.
#pragma once

#include <optional>
#include <string>

#include "fits/header.h"

namespace cirrus::fits {

struct Beam {
  double major_arcsec = 0.0, minor_arcsec = 0.0;  ///< FWHM
  double position_angle_deg = 0.0;                ///< east of north
  std::string source;                             ///< "BMAJ", "SRBMAJ", "HISTORY AIPS CLEAN"
  double fwhm_arcsec() const;                     ///< geometric mean
  double area_arcsec2() const;                    ///< pi major minor / (4 ln 2)
  bool is_elliptical() const;                     ///< axes differ by more than 5 %
};

/// The beam of BMAJ, BMIN, BPA (degrees), else of the last AIPS CLEAN line in HISTORY; nullopt if absent or undefined.
/// Throws bad_data for a BMAJ or BMIN that is there but no positive number.
std::optional<Beam> header_beam(const Header& header);

/// The map's resolution: SRBMAJ, else header_beam().
std::optional<Beam> header_resolution(const Header& header);

/// States another beam: BMAJ, BMIN, BPA together, the old beam kept in OBMAJ, OBMIN, OBPA, PPBEAM scaled.
void set_beam(Header& header, const Beam& beam);

/// Changes the beam a per-beam unit refers to, as set_beam() does. Returns the factor Omega_out / Omega_in that the
/// caller multiplies the values by. Throws bad_data if the header has no beam.
double change_unit_beam(Header& header, const Beam& beam);

}  // namespace cirrus::fits
