// Parsing and printing of angles.
#include "sky/angle.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/errors.h"

namespace cirrus::sky {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 9> kUnits{{{"", 1.0},
                                                                     {"arcsec", 1.0},
                                                                     {"\"", 1.0},
                                                                     {"arcmin", 60.0},
                                                                     {"'", 60.0},
                                                                     {"deg", 3600.0},
                                                                     {"mas", 1e-3},
                                                                     {"rad", 206264.80624709636},
                                                                     {"mrad", 206.26480624709636}}};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

double arcsec_of(std::string_view text) {
  std::string_view body = trimmed(text);
  if (!body.empty() && body.front() == '+') body.remove_prefix(1);  // from_chars takes no plus sign
  double number = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (error == std::errc{} && std::isfinite(number)) {
    const std::string_view unit = trimmed(body.substr(static_cast<std::size_t>(end - body.data())));
    for (const auto& [name, arcsec] : kUnits)
      if (unit == name) return number * arcsec;
  }
  throw Error(ExitCode::usage, "'" + std::string(text) + "' is not an angle",
              "write 18.2arcsec, 5arcmin, 0.01deg, or arcseconds");
}

std::string angle_text(double arcsec) {
  const double size = std::abs(arcsec);
  const auto [scale, unit] = size >= 3600 ? std::pair{3600.0, "deg"}
                             : size >= 60 ? std::pair{60.0, "arcmin"}
                                          : std::pair{1.0, "arcsec"};
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.6g%s", arcsec / scale, unit);
  return text.data();
}

}  // namespace cirrus::sky
