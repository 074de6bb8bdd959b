// Beams from BMAJ, SRBMAJ and AIPS' HISTORY, and back; see header_beam.h.
#include "fits/header_beam.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.h"

namespace cirrus::fits {
namespace {

/// An axis of a beam in degrees; nullopt: absent or undefined.
std::optional<double> axis_of(const Header& header, const char* key) {
  const auto at = header.find(key);
  if (!at || header.cards()[*at].value_text().empty()) return std::nullopt;
  const auto degrees = header.get<double>(key);
  if (!degrees || !(*degrees > 0))
    throw Error(ExitCode::bad_data,
                std::string(key) + " = " + header.cards()[*at].value_text() + " is not the FWHM of a beam in degrees",
                "correct the card, or give the beam by flag (an angle, or none)");
  return degrees;
}

std::optional<Beam> aips_beam(const Header& header) {
  const auto positive = [](std::optional<double> x) { return x && *x > 0.0; };
  std::optional<Beam> beam;
  for (const std::string& line :
       header.commentary("HISTORY")) {  // AIPS   CLEAN BMAJ=  1.3E-03 BMIN=  1.1E-03 BPA=  12.00
    if (line.find("AIPS") == std::string::npos || line.find("CLEAN") == std::string::npos) continue;
    const auto value = [&](const std::string& key) {
      const auto at = line.find(key + "=");
      if (at == std::string::npos) return std::optional<double>();
      std::string rest = line.substr(at + key.size() + 1);
      rest.erase(0, std::min(rest.find_first_not_of(' '), rest.size()));
      return Card("X       = " + rest.substr(0, rest.find(' '))).number();
    };
    const auto a = value("BMAJ"), b = value("BMIN");
    if (positive(a) && positive(b))
      beam = Beam{*a * 3600.0, *b * 3600.0, value("BPA").value_or(0.0), "HISTORY AIPS CLEAN"};
  }
  return beam;
}

}  // namespace

double Beam::fwhm_arcsec() const { return std::sqrt(major_arcsec * minor_arcsec); }

double Beam::area_arcsec2() const { return std::numbers::pi * major_arcsec * minor_arcsec / (4.0 * std::numbers::ln2); }

bool Beam::is_elliptical() const { return std::abs(major_arcsec / minor_arcsec - 1) > 0.05; }

std::optional<Beam> header_beam(const Header& header) {
  const auto major = axis_of(header, "BMAJ");
  if (!major) return aips_beam(header);
  const double minor = axis_of(header, "BMIN").value_or(*major);
  return Beam{*major * 3600.0, minor * 3600.0, header.get<double>("BPA").value_or(0.0), "BMAJ"};
}

std::optional<Beam> header_resolution(const Header& header) {
  if (const auto fwhm = axis_of(header, "SRBMAJ")) return Beam{*fwhm * 3600.0, *fwhm * 3600.0, 0.0, "SRBMAJ"};
  return header_beam(header);
}

void set_beam(Header& header, const Beam& beam) {
  std::optional<Beam> old;
  try {
    old = header_beam(header);
  } catch (const Error&) {  // a BMAJ that is none makes room for one
  }
  if (old) {
    header.insert_after("BPA", "OBMAJ", old->major_arcsec / 3600.0, "[deg] beam of the input");
    header.insert_after("OBMAJ", "OBMIN", old->minor_arcsec / 3600.0, "[deg] beam of the input");
    header.insert_after("OBMIN", "OBPA", old->position_angle_deg, "[deg] beam of the input");
    if (const auto pixels = header.get<double>("PPBEAM"))
      header.set("PPBEAM", *pixels * beam.area_arcsec2() / old->area_arcsec2());
  }
  header.set("BMAJ", beam.major_arcsec / 3600.0, header.has("BMAJ") ? "" : "[deg] FWHM of the beam");
  header.set("BMIN", beam.minor_arcsec / 3600.0, header.has("BMIN") ? "" : "[deg]");
  header.set("BPA", beam.position_angle_deg, header.has("BPA") ? "" : "[deg]");
}

double change_unit_beam(Header& header, const Beam& beam) {
  const auto old = header_beam(header);
  if (!old)
    throw Error(ExitCode::bad_data, "the header has no beam (BMAJ, BMIN in degrees) to convert per-beam values from",
                "add BMAJ, BMIN and BPA to the input");
  set_beam(header, beam);
  return beam.area_arcsec2() / old->area_arcsec2();
}

}  // namespace cirrus::fits
