// Classes of units and pixel sizes from header cards; see units.h.
#include "fits/units.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numbers>

#include "base/errors.h"
#include "fits/wcs_keyword.h"

namespace cirrus::fits {
namespace {

/// A factor of a unit: its name in lower case and the exponent, negative in denominators.
struct Factor {
  std::string name;
  int exponent;
};

/// Splits a unit however it is spelled: "MJy/sr", "W m-2 sr-1", "erg / (s sr cm2)", "beam-1 Jy", "W/m^2-sr". A slash
/// holds for the next factor or bracket; "-" before a letter separates factors and keeps the side of the slash.
std::vector<Factor> parse_factors(std::string_view unit) {
  std::vector<Factor> factors;
  bool below = false, group_below = false, keep_side = false;
  for (std::size_t i = 0; i < unit.size();) {
    const char c = unit[i];
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '%';
    if (letter) {
      std::size_t end = i;
      while (end < unit.size() &&
             (std::isalpha(static_cast<unsigned char>(unit[end])) != 0 || unit[end] == '_' || unit[end] == '%')) {
        ++end;
      }
      Factor factor{std::string(unit.substr(i, end - i)), 1};
      i = end;
      // An exponent: 2, -2, +2, ^2, ^-2, **2, **(-2).
      std::size_t at = i;
      while (at < unit.size() && (unit[at] == '^' || unit[at] == '*' || unit[at] == '(')) ++at;
      if (at > i && unit.substr(i, at - i).find('^') == std::string_view::npos &&
          !unit.substr(i, at - i).starts_with("**")) {
        at = i;
      }
      const bool minus = at < unit.size() && unit[at] == '-';
      if (at < unit.size() && (unit[at] == '-' || unit[at] == '+')) ++at;
      if (at < unit.size() && std::isdigit(static_cast<unsigned char>(unit[at])) != 0) {
        factor.exponent = (unit[at] - '0') * (minus ? -1 : 1);
        i = at + 1;
      }
      if (below || group_below) factor.exponent = -factor.exponent;
      keep_side = i < unit.size() && unit[i] == '-';
      if (!keep_side) below = false;
      factors.push_back(std::move(factor));
      continue;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {  // a number: 1, 10^20, 1E20
      while (i < unit.size() && (std::isdigit(static_cast<unsigned char>(unit[i])) != 0 || unit[i] == '.')) ++i;
      const bool exponent = i + 1 < unit.size() && unit[i] == 'e' &&
                            (std::isdigit(static_cast<unsigned char>(unit[i + 1])) != 0 || unit[i + 1] == '+');
      if (exponent) i += 2;
      continue;
    }
    if (c == '/') below = true;
    if (c == '(') {
      group_below = below;
      below = false;
    }
    if (c == ')') group_below = false;
    ++i;
  }
  return factors;
}

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_solid_angle(const Factor& f) {
  return one_of(f.name, {"sr", "ster", "steradian", "sqdeg", "sqarcsec", "sqarcmin"}) ||
         (one_of(f.name, {"arcsec", "arcmin", "deg", "asec", "as", "amin"}) && std::abs(f.exponent) == 2);
}

bool is_kelvin(std::string_view name) {
  if (name == "kelvin") return true;
  for (const std::string_view prefix : {"mu", "m", "u", "n", ""}) {
    if (name.starts_with(prefix) &&
        one_of(name.substr(prefix.size()), {"k", "k_cmb", "kcmb", "k_rj", "krj", "k_b", "k_a", "k_mb", "kcmb_"})) {
      return true;
    }
  }
  return false;
}

bool is_count(std::string_view name) {
  return one_of(name,
                {"count", "counts", "ct", "cts", "electron", "electrons", "e", "adu", "dn", "photon", "photons", "ph"});
}

std::string lower_and_trimmed(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const char low = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (low == ' ' && (out.empty() || out.back() == ' ')) continue;
    out += low;
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

/// Arcseconds in one unit of CUNIT.
double cunit_arcsec(const Header& header, int axis) {
  const std::string unit = lower_and_trimmed(header.get<std::string>("CUNIT" + std::to_string(axis)).value_or("deg"));
  if (one_of(unit, {"arcsec", "arcsecond", "arcseconds", "\""})) return 1.0;
  if (one_of(unit, {"arcmin", "arcminute", "arcminutes"})) return 60.0;
  if (unit == "mas") return 1e-3;
  if (one_of(unit, {"rad", "radian", "radians"})) return 648000.0 / std::numbers::pi;
  return 3600.0;
}

bool is_celestial_pair(std::string_view a, std::string_view b) {
  const auto longitude = [](std::string_view t) {
    return t.starts_with("RA--") || t.substr(0, 5).find("LON-") == 1 || t.substr(0, 5).find("LN-") == 2 || t == "RA" ||
           t == "GLON";
  };
  const auto latitude = [](std::string_view t) {
    return t.starts_with("DEC-") || t.substr(0, 5).find("LAT-") == 1 || t.substr(0, 5).find("LT-") == 2 || t == "DEC" ||
           t == "GLAT";
  };
  return (longitude(a) && latitude(b)) || (latitude(a) && longitude(b));
}

std::string outcome(UnitClass unit_class) {
  switch (unit_class) {
    case UnitClass::brightness:
      return "surface brightness, values kept";
    case UnitClass::per_pixel:
      return "per pixel, sums over pixels kept";
    case UnitClass::per_beam:
      return "per beam, values kept while the unit's beam is unchanged";
    case UnitClass::unknown:
      break;
  }
  return "unknown, treated as surface brightness, values kept";
}

/// Units that other cards name: for the user's eyes only.
void report_other_units(const Header& header, UnitDecision& decision) {
  const auto hint = [&](const std::string& where, const std::string& unit) {
    const UnitKind kind = classify_unit(unit);
    if (kind.unit_class == UnitClass::unknown) return false;
    decision.warnings.push_back(where + " names the unit '" + unit + "' (" + name_of(kind.unit_class) +
                                "); it was not used, give --unit-type " + name_of(kind.unit_class) + " if it holds");
    return true;
  };
  if (const auto unit = header.get<std::string>("SIGUNIT")) hint("SIGUNIT", *unit);
  for (const std::string& line : header.commentary("COMMENT")) {
    std::string word;
    for (const char c : line + " ") {
      if (c != ' ' && c != ',' && c != ';' && c != ':') {
        word += c;
        continue;
      }
      if (word.find('/') != std::string::npos && word.front() != '/' && hint("COMMENT", word)) return;
      word.clear();
    }
  }
}

}  // namespace

const char* name_of(UnitClass unit_class) {
  switch (unit_class) {
    case UnitClass::brightness:
      return "brightness";
    case UnitClass::per_pixel:
      return "pixel";
    case UnitClass::per_beam:
      return "beam";
    case UnitClass::unknown:
      break;
  }
  return "unknown";
}

UnitKind classify_unit(std::string_view spelled) {
  const std::string unit = lower_and_trimmed(spelled);
  if (unit.empty()) return {};
  if (unit == "dex" || unit.starts_with("log")) return {UnitClass::brightness, true};
  if (one_of(unit, {"e(b-v)", "ebv", "mag e(b-v)", "a(v)", "a_v", "av", "tau", "optical depth", "opacity"})) {
    return {UnitClass::brightness, false};
  }
  const auto factors = parse_factors(unit);
  const auto any = [&](auto match) { return std::any_of(factors.begin(), factors.end(), match); };
  const bool magnitude = any([](const Factor& f) {
    return one_of(f.name, {"mag", "mags", "magnitude", "magnitudes"});
  });
  const bool jansky = any([](const Factor& f) { return f.name.ends_with("jy") || f.name == "jansky"; });
  if (factors.size() > 1) {
    const auto beam = [&](const Factor& f) {
      return one_of(f.name, {"beam", "beams", "bm"}) || (jansky && f.name == "b" && f.exponent < 0);
    };
    if (any(beam)) return {UnitClass::per_beam, false};
    if (any([](const Factor& f) { return one_of(f.name, {"pix", "pixel", "pixels", "px"}); })) {
      return {UnitClass::per_pixel, false};
    }
    if (any(is_solid_angle)) return {UnitClass::brightness, magnitude};
  }
  if (magnitude || any([](const Factor& f) { return is_kelvin(f.name); })) return {UnitClass::brightness, false};
  if (any([](const Factor& f) { return is_count(f.name); })) return {UnitClass::per_pixel, false};
  // Column densities: something per area, without energy or time (W/m^2 alone may be a flux per pixel).
  const bool per_area = any([](const Factor& f) {
    return one_of(f.name, {"cm", "m", "pc", "kpc"}) && f.exponent == -2;
  });
  const bool flux = any([](const Factor& f) {
    return one_of(f.name, {"w", "nw", "erg", "ergs", "j", "s", "sec", "hz", "um", "micron", "angstrom"});
  });
  if (per_area && !flux && !jansky) return {UnitClass::brightness, false};
  return {};
}

UnitDecision decide_unit(const Header& header, std::string_view override_class) {
  UnitDecision decision;
  decision.unit = header.get<std::string>("BUNIT").value_or("");
  const UnitKind kind = classify_unit(decision.unit);
  const std::string stated = decision.unit.empty() ? "no BUNIT" : "BUNIT = '" + decision.unit + "'";
  if (override_class != "auto") {
    if (override_class == "brightness" || override_class == "sb") {
      decision.unit_class = UnitClass::brightness;
    } else if (override_class == "pixel") {
      decision.unit_class = UnitClass::per_pixel;
    } else if (override_class == "beam") {
      decision.unit_class = UnitClass::per_beam;
    } else {
      throw Error(ExitCode::usage, "unit type '" + std::string(override_class) + "' is not known",
                  "one of auto, brightness, pixel, beam");
    }
    decision.reason = stated + ", taken as told: " + outcome(decision.unit_class);
    if (kind.unit_class != UnitClass::unknown && kind.unit_class != decision.unit_class) {
      decision.warnings.push_back(stated + " reads as " + name_of(kind.unit_class) + ", you said " +
                                  name_of(decision.unit_class));
    }
    if (kind.logarithmic) decision.warnings.push_back(stated + " is logarithmic: means over pixels are not fluxes");
    return decision;
  }
  if (kind.logarithmic) {
    throw Error(ExitCode::bad_data, stated + " is logarithmic: means over its pixels have no meaning",
                "convert the map to linear brightness, or say --unit-type brightness to go on regardless");
  }
  decision.unit_class = kind.unit_class;
  decision.assumed = kind.unit_class == UnitClass::unknown;
  decision.reason = stated + ": " + outcome(decision.unit_class);
  if (decision.assumed) {
    decision.warnings.push_back(decision.reason + "; give --unit-type if that is wrong");
    report_other_units(header, decision);
  }
  return decision;
}

std::optional<PixelScale> pixel_scale(const Header& header, int axis_x, int axis_y) {
  const auto type = [&](int axis) { return header.get<std::string>("CTYPE" + std::to_string(axis)).value_or(""); };
  if (!is_celestial_pair(type(axis_x), type(axis_y))) return std::nullopt;
  auto m = linear_matrix(header, axis_x, axis_y);
  const double ux = cunit_arcsec(header, axis_x), uy = cunit_arcsec(header, axis_y);
  m = {m[0] * ux, m[1] * ux, m[2] * uy, m[3] * uy};
  PixelScale scale;
  scale.x_arcsec = std::hypot(m[0], m[2]);
  scale.y_arcsec = std::hypot(m[1], m[3]);
  scale.arcsec = std::sqrt(std::abs(m[0] * m[3] - m[1] * m[2]));
  if (!(scale.arcsec > 0.0) || !std::isfinite(scale.x_arcsec * scale.y_arcsec)) return std::nullopt;
  if (scale.arcsec < 1e-6 * std::max(scale.x_arcsec, scale.y_arcsec)) return std::nullopt;  // singular but for rounding
  scale.anisotropy = std::max(scale.x_arcsec, scale.y_arcsec) / std::min(scale.x_arcsec, scale.y_arcsec);
  return scale;
}

}  // namespace cirrus::fits
