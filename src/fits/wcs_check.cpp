// Comparison of sky positions with WCSLIB; see wcs_check.h.
#include "fits/wcs_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>

#include "fits/scale.h"
#include "fits/wcs_keyword.h"

#ifdef CIRRUS_HAVE_WCSLIB
#include <wcslib/wcs.h>
#include <wcslib/wcsfix.h>
#include <wcslib/wcshdr.h>
#endif

namespace cirrus::fits {

std::vector<PixelPoint> nine_points(std::int64_t width, std::int64_t height) {
  const double w = static_cast<double>(width), h = static_cast<double>(height);
  std::vector<PixelPoint> points;
  for (const double y : {0.5, 0.5 * (h + 1.0), h + 0.5}) {
    for (const double x : {0.5, 0.5 * (w + 1.0), w + 0.5}) points.push_back({x, y});
  }
  return points;
}

std::string senseless_card(const Header& header, char alternate, int axis_x, int axis_y) {
  constexpr double kFarthest = 1e12;  // pixels: beyond, a double has no thousandth of one
  for (const Card& card : header.cards()) {
    const std::string key = card.key();
    const auto word = parse_wcs_keyword(key);
    if (!word || word->alternate != alternate || card.value_text().empty()) continue;
    if (word->i != axis_x && word->i != axis_y) continue;
    const bool reference = word->family == "CRPIX", step = word->family == "CDELT";
    if (!reference && !step && word->family != "CD" && word->family != "PC" && word->family != "CRVAL") continue;
    const auto number = card.number();
    if (!number || (step && *number == 0.0) || (reference && std::abs(*number) > kFarthest))
      return key + " = " + card.value_text() + " makes no sense";
  }
  return "";
}

#ifdef CIRRUS_HAVE_WCSLIB
namespace {

/// Whether the matrix that WCSLIB is going to invert has no inverse. (Told so, WCSLIB 7.12 would leak.)
bool is_singular(const wcsprm& wcs) {
  const auto n = static_cast<std::size_t>(wcs.naxis);
  const bool cd = (wcs.altlin & 1) == 0 && (wcs.altlin & 2) != 0;
  const double* matrix = cd ? wcs.cd : wcs.pc;
  std::vector<double> m(matrix, matrix + n * n);
  for (std::size_t k = 0; k < n; ++k) {  // Gaussian elimination with pivoting
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i) {
      if (std::abs(m[i * n + k]) > std::abs(m[pivot * n + k])) pivot = i;
    }
    if (!(std::abs(m[pivot * n + k]) > 0.0)) return true;
    for (std::size_t j = 0; j < n; ++j) std::swap(m[k * n + j], m[pivot * n + j]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = m[i * n + k] / m[k * n + k];
      for (std::size_t j = k; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
    }
  }
  return false;
}

/// The header as WCSLIB 7.12 can take it: values alone, without comments and commentary; strings closed (it reads an
/// open one across cards, beyond its buffers); Fortran's 2.0D-2 with an E (it reads 2.0); no SCAMP terms beside SIP
/// (astropy drops them, WCSLIB refuses the header).
std::string text_for_wcslib(const Header& header) {
  const bool sip = header.get<std::string>("CTYPE1").value_or("").ends_with("TAN-SIP");
  std::string text;
  for (const Card& card : header.cards()) {
    const std::string key = card.key(), value = card.value_text();
    if (value.empty() || key.size() > 8 || key == "CONTINUE" || card.text().starts_with("HIERARCH")) continue;
    if (sip && (key.starts_with("PV1_") || key.starts_with("PV2_"))) continue;
    if (const auto string = card.string()) {
      text += Card(key, *string).text();
    } else if (const auto number = card.number(); number && value.find_first_of("dD") != std::string::npos) {
      text += Card(key, *number).text();
    } else {
      text += Card(card.text().substr(0, 10) + value).text();
    }
  }
  return text;
}

/// The WCS structures of a header; one alternate of it is used.
class Wcs {
public:
  Wcs(const Header& header, char alternate, int axis_x, int axis_y) {
    if (wcs_alternates(header).find(alternate) == std::string::npos) {
      reason_ = "the header has no WCS";
      return;
    }
    if (reason_ = senseless_card(header, alternate, axis_x, axis_y); !reason_.empty()) return;
    std::string text = text_for_wcslib(header);
    text += Card("END").text();
    int rejected = 0;
    const int status =
        wcspih(text.data(), static_cast<int>(text.size() / Card::kLength), WCSHDR_all, 0, &rejected, &count_, &array_);
    if (status != 0 || count_ == 0) {
      reason_ = "WCSLIB cannot read the header's WCS";
      return;
    }
    for (int k = 0; k < count_; ++k) {
      if (array_[k].alt[0] == alternate) wcs_ = array_ + k;
    }
    if (wcs_ == nullptr) {
      reason_ = "WCSLIB finds no WCS of this name";
      return;
    }
    if (is_singular(*wcs_)) {
      reason_ = "the WCS matrix is singular";
      wcs_ = nullptr;
      return;
    }
    std::array<int, NWCSFIX> fixed{};
    wcsfix(7, nullptr, wcs_, fixed.data());
    if (const int failed = wcsset(wcs_); failed != 0) {
      reason_ = wcs_->err != nullptr && wcs_->err->msg[0] != '\0' ? wcs_->err->msg : wcs_errmsg[failed];
      wcs_ = nullptr;
    }
  }
  Wcs(const Wcs&) = delete;
  Wcs& operator=(const Wcs&) = delete;
  ~Wcs() {
    if (array_ != nullptr) wcsvfree(&count_, &array_);
  }

  bool usable() const { return wcs_ != nullptr; }
  const std::string& reason() const { return reason_; }
  int axes() const { return wcs_->naxis; }
  int longitude() const { return wcs_->lng; }
  int latitude() const { return wcs_->lat; }
  bool celestial() const { return wcs_->lng >= 0 && wcs_->lat >= 0; }

  /// All world coordinates of a pixel (other axes at their first pixel); empty where there are none.
  std::vector<double> world(double x, double y, int axis_x, int axis_y) {
    const auto n = static_cast<std::size_t>(axes());
    std::vector<double> pixel(n, 1.0), intermediate(n), result(n);
    pixel[static_cast<std::size_t>(axis_x) - 1] = x;
    pixel[static_cast<std::size_t>(axis_y) - 1] = y;
    double phi = 0.0, theta = 0.0;
    int bad = 0;
    const int status = wcsp2s(wcs_, 1, axes(), pixel.data(), intermediate.data(), &phi, &theta, result.data(), &bad);
    const bool finite = std::all_of(result.begin(), result.end(), [](double v) { return std::isfinite(v); });
    if (status != 0 || bad != 0 || !finite) result.clear();
    return result;
  }

  /// World coordinates as a vector without wraps: the celestial pair becomes a point of the unit sphere.
  std::vector<double> position(double x, double y, int axis_x, int axis_y) {
    std::vector<double> w = world(x, y, axis_x, axis_y);
    if (w.empty() || !celestial()) return w;
    const double lon = w[static_cast<std::size_t>(longitude())] * std::numbers::pi / 180.0;
    const double lat = w[static_cast<std::size_t>(latitude())] * std::numbers::pi / 180.0;
    w[static_cast<std::size_t>(longitude())] = std::cos(lat) * std::cos(lon);
    w[static_cast<std::size_t>(latitude())] = std::cos(lat) * std::sin(lon);
    w.push_back(std::sin(lat));
    return w;
  }

private:
  int count_ = 0;
  wcsprm* array_ = nullptr;
  wcsprm* wcs_ = nullptr;
  std::string reason_;
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// How many output pixels lie between the positions that the two headers give one point: the difference of positions,
/// divided by the output's derivatives there (least squares). nullopt where neither header has a position.
std::optional<double> distance(Wcs& input, Wcs& output, PixelPoint in, PixelPoint out, int ax, int ay) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const auto a = input.position(in.x, in.y, ax, ay), b = output.position(out.x, out.y, ax, ay);
  if (a.empty() && b.empty()) return std::nullopt;
  if (a.size() != b.size()) return kInfinite;
  constexpr double kStep = 0.25;
  std::array<std::vector<double>, 2> slope;
  for (int k = 0; k < 2; ++k) {
    const double dx = k == 0 ? kStep : 0.0, dy = kStep - dx;
    auto low = output.position(out.x - dx, out.y - dy, ax, ay), high = output.position(out.x + dx, out.y + dy, ax, ay);
    double width = 2.0 * kStep;
    if (low.empty()) low = b, width = kStep;
    if (high.empty()) high = b, width = low == b ? 0.0 : kStep;
    if (width == 0.0) return std::nullopt;  // an isolated point: no derivative
    for (std::size_t i = 0; i < b.size(); ++i) slope[static_cast<std::size_t>(k)].push_back((high[i] - low[i]) / width);
  }
  std::vector<double> difference(b.size());
  for (std::size_t i = 0; i < b.size(); ++i) difference[i] = b[i] - a[i];
  const double xx = dot(slope[0], slope[0]), xy = dot(slope[0], slope[1]), yy = dot(slope[1], slope[1]);
  const double determinant = xx * yy - xy * xy;
  const double gx = dot(slope[0], difference), gy = dot(slope[1], difference);
  if (gx == 0.0 && gy == 0.0) return 0.0;
  if (!(determinant > 1e-12 * xx * yy)) return kInfinite;
  return std::hypot((yy * gx - xy * gy) / determinant, (xx * gy - xy * gx) / determinant);
}

}  // namespace

SkyPositions pixel_to_sky(const Header& header, std::span<const PixelPoint> points, char alternate, int axis_x,
                          int axis_y) {
  SkyPositions result;
  Wcs wcs(header, alternate, axis_x, axis_y);
  result.reason = wcs.reason();
  if (wcs.usable() && wcs.axes() < std::max(axis_x, axis_y)) result.reason = "the WCS has too few axes";
  if (!result.reason.empty()) return result;
  result.usable = true;
  result.celestial = wcs.celestial();
  const auto lon = static_cast<std::size_t>(result.celestial ? wcs.longitude() : axis_x - 1);
  const auto lat = static_cast<std::size_t>(result.celestial ? wcs.latitude() : axis_y - 1);
  for (const PixelPoint& point : points) {
    const auto world = wcs.world(point.x, point.y, axis_x, axis_y);
    result.points.push_back(world.empty() ? SkyPoint{} : SkyPoint{world[lon], world[lat], true});
  }
  return result;
}

WcsCheck compare_wcs(const Header& input, const Header& output, std::int64_t width, std::int64_t height, double sx,
                     double sy, double offset_x, double offset_y, int axis_x, int axis_y) {
  WcsCheck check;
  const std::string alternates = wcs_alternates(input);
  if (alternates.empty()) check.reason = "the header has no WCS";
  for (const char alternate : alternates) {
    Wcs before(input, alternate, axis_x, axis_y), after(output, alternate, axis_x, axis_y);
    const std::string which = alternate == ' ' ? "" : std::string("WCS ") + alternate + ": ";
    if (!before.usable() || before.axes() < std::max(axis_x, axis_y)) {
      check.reason +=
          (check.reason.empty() ? "" : "; ") + which + (before.usable() ? "the WCS has too few axes" : before.reason());
      continue;
    }
    check.usable = true;
    if (!after.usable() || after.axes() != before.axes()) {
      check.max_distance_px = std::numeric_limits<double>::infinity();
      check.reason += which + "the output's WCS is unusable: " + after.reason();
      continue;
    }
    for (const PixelPoint& in : nine_points(width, height)) {
      const PixelPoint out{sx * (in.x + offset_x - 0.5) + 0.5, sy * (in.y + offset_y - 0.5) + 0.5};
      if (const auto d = distance(before, after, in, out, axis_x, axis_y)) {
        check.max_distance_px = std::max(check.max_distance_px, *d);
        ++check.points;
      }
    }
  }
  return check;
}

#else  // without WCSLIB

SkyPositions pixel_to_sky(const Header&, std::span<const PixelPoint>, char, int, int) {
  return {false, "Cirrus was built without WCSLIB", false, {}};
}

WcsCheck compare_wcs(const Header&, const Header&, std::int64_t, std::int64_t, double, double, double, double, int,
                     int) {
  WcsCheck check;
  check.reason = "Cirrus was built without WCSLIB";
  return check;
}

#endif

}  // namespace cirrus::fits
