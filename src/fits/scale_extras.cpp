// Keywords beside the linear WCS that carry the pixel: distortions, plate solutions, physical coordinates, pixel sizes,
// storage.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/errors.h"
#include "fits/scale_edit.h"
#include "fits/units.h"
#include "fits/wcs_keyword.h"

namespace cirrus::fits {
namespace {

/// Divides or multiplies every numeric card of a keyword.
void multiply(HeaderEdit& edit, std::string_view key, double factor) {
  for (auto at = edit.header.find(key); at; at = edit.header.find(key, *at + 1)) {
    if (const auto value = edit.header.cards()[*at].number()) edit.set_at(*at, *value * factor);
  }
}

struct SipTerm {
  bool second_axis, maximum;
  int p, q;
};

/// A_p_q, B_p_q, AP_p_q, BP_p_q, A_DMAX, B_DMAX; orders and other keywords give nullopt.
std::optional<SipTerm> parse_sip(std::string_view key) {
  if (key.size() < 5 || (key[0] != 'A' && key[0] != 'B')) return std::nullopt;
  SipTerm term{key[0] == 'B', false, 0, 0};
  key.remove_prefix(key[1] == 'P' ? 2 : 1);
  if (key == "_DMAX") {
    term.maximum = true;
    return term;
  }
  if (key.size() != 4 || key[0] != '_' || key[2] != '_') return std::nullopt;
  if (key[1] < '0' || key[1] > '9' || key[3] < '0' || key[3] > '9') return std::nullopt;
  term.p = key[1] - '0';
  term.q = key[3] - '0';
  return term;
}

}  // namespace

void HeaderEdit::set_at(std::size_t position, double value) {
  const Card before = header.cards()[position];
  if (before.number() == value) return;
  const bool stays_integer = before.value_text().find_first_of(".eEdD") == std::string::npos && before.number() &&
                             std::floor(value) == value && std::abs(value) < 9e15;
  header.set_at(position, stays_integer ? Value(static_cast<std::int64_t>(value)) : Value(value));
  report.changes.push_back(before.key() + ": " + before.value_text() + " -> " + header.cards()[position].value_text());
}

void HeaderEdit::add(std::string_view after, std::string_view key, double value) {
  header.insert_after(after, key, value);
  report.changes.push_back(std::string(key) + ": (default) -> " + format_number(value));
}

void HeaderEdit::erase(std::string_view key) {
  if (header.erase(key) > 0) report.changes.push_back(std::string(key) + ": removed");
}

void HeaderEdit::erase_if(const std::function<bool(std::string_view)>& match) {
  for (std::size_t i = 0; i < header.size();) {
    const Card& card = header.cards()[i];
    const std::string key = card.key();
    if (!card.is_commentary() && match(key)) {
      header.erase_at(i);
      report.changes.push_back(key + ": removed");
    } else {
      ++i;
    }
  }
}

void remove_pixel_distortion(HeaderEdit& edit, bool drop) {
  std::string found;
  for (const Card& card : edit.header.cards()) {
    const std::string key = card.key();
    const auto word = parse_wcs_keyword(key);
    if (!word || card.is_commentary()) continue;
    if (word->family == "CPDIS" || word->family == "D2IMDIS") {
      found = key + " = " + card.value_text();
      break;
    }
  }
  if (found.empty()) return;
  if (!drop) {
    throw Error(
        ExitCode::bad_data,
        "the header has " + found + ": a distortion in a table or formula of input pixels, which cannot be scaled",
        "use --drop-distortion to leave it out, or resample the map to undistorted pixels first");
  }
  edit.erase_if([](std::string_view key) {
    const auto word = parse_wcs_keyword(key.substr(0, key.find('.')));
    const bool records = key.starts_with("D2IM1") || key.starts_with("D2IM2");
    return records || (word && (word->family == "CPDIS" || word->family == "DP" || word->family == "CPERR" ||
                                word->family == "D2IMDIS" || word->family == "D2IMERR"));
  });
  edit.header.add_history("Cirrus removed the distortion " + found + ": positions are those without it");
  edit.warn("the distortion " + found + " was removed: positions are those without it");
}

void scale_pixel_sizes(HeaderEdit& edit) {
  const auto scale = pixel_scale(edit.header, edit.axis[0], edit.axis[1]);
  const double mean = std::sqrt(edit.area());
  struct Size {
    std::string_view key;
    int axis;  // -1: both
  };
  for (const auto& [key, axis] :
       {Size{"PIXSCALE", -1}, Size{"PIXSCAL1", 0}, Size{"PIXSCAL2", 1}, Size{"SECPIX", -1}, Size{"SECPIX1", 0},
        Size{"SECPIX2", 1}, Size{"PSCALE", -1}, Size{"PIXSIZE", -1}, Size{"XPIXSIZE", 0}, Size{"YPIXSIZE", 1}}) {
    for (auto at = edit.header.find(key); at; at = edit.header.find(key, *at + 1)) {
      const Card card = edit.header.cards()[*at];
      const auto value = card.number();
      if (card.is_commentary() || card.value_text().empty()) continue;
      const double arcsec = !scale ? 0.0 : axis < 0 ? scale->arcsec : axis == 0 ? scale->x_arcsec : scale->y_arcsec;
      bool matches = false;
      for (const double unit : {1.0, 60.0, 3600.0}) {  // arcsec, arcmin, degrees
        matches = matches || (value && arcsec > 0.0 && std::abs(std::abs(*value) * unit - arcsec) <= 0.01 * arcsec);
      }
      if (matches) {
        edit.set_at(*at, *value / (axis < 0 ? mean : edit.s[static_cast<std::size_t>(axis)]));
      } else if (edit.area() != 1.0) {
        edit.warn(std::string(key) + " = " + card.value_text() +
                  " is not the pixel size of the WCS: left as it is, check it");
      }
    }
  }
  for (const char* key : {"PIXAR_SR", "PIXAR_A2"}) multiply(edit, key, 1.0 / edit.area());
  multiply(edit, "PPBEAM", edit.area());
  multiply(edit, "LAM_SCAL", mean);
}

void scale_sip(HeaderEdit& edit) {
  const bool has_sip = edit.header.has("A_ORDER") || edit.header.has("B_ORDER");
  if (!has_sip) return;
  for (std::size_t at = 0; at < edit.header.size(); ++at) {
    const Card card = edit.header.cards()[at];
    const auto term = parse_sip(card.key());
    const auto value = card.number();
    if (!term || !value) continue;
    const double s = edit.s[term->second_axis ? 1 : 0];
    const double powers = term->maximum ? 1.0 : std::pow(edit.s[0], term->p) * std::pow(edit.s[1], term->q);
    edit.set_at(at, *value * s / powers);
  }
  const auto type = edit.header.get<std::string>("CTYPE1").value_or("");
  if (!type.ends_with("-SIP")) {
    edit.warn("SIP coefficients without -SIP in CTYPE1 = '" + type +
              "': kept and scaled, but programs disagree on whether they count");
  }
}

void scale_plate_solution(HeaderEdit& edit) {
  constexpr std::pair<const char*, const char*> kKeys[] = {{"CNPIX1", "XPIXELSZ"}, {"CNPIX2", "YPIXELSZ"}};
  for (std::size_t k = 0; k < 2; ++k) {
    const auto [corner, size] = kKeys[k];
    for (auto at = edit.header.find(corner); at; at = edit.header.find(corner, *at + 1)) {
      if (const auto value = edit.header.cards()[*at].number()) {
        edit.set_at(*at, edit.s[k] * (*value - edit.offset[k]));
      }
    }
    multiply(edit, size, 1.0 / edit.s[k]);
  }
}

void scale_physical(HeaderEdit& edit) {
  bool any = false;
  std::array<bool, 2> has_shift = {false, false}, has_diagonal = {false, false};
  for (std::size_t at = 0; at < edit.header.size(); ++at) {
    const std::string key = edit.header.cards()[at].key();
    const auto word = parse_wcs_keyword(key);
    const auto value = edit.header.cards()[at].number();
    if (!word || !value || word->alternate != ' ' || (word->family != "LTM" && word->family != "LTV")) continue;
    for (std::size_t k = 0; k < 2; ++k) {
      if (word->i != edit.axis[k]) continue;
      any = true;
      if (word->family == "LTM") {
        has_diagonal[k] = has_diagonal[k] || word->j == word->i;
        edit.set_at(at, *value * edit.s[k]);
      } else {
        has_shift[k] = true;
        edit.set_at(at, edit.s[k] * (*value + edit.offset[k]) + 0.5 * (1.0 - edit.s[k]));
      }
    }
  }
  for (std::size_t k = 0; any && k < 2; ++k) {  // a missing LTMj_j is 1, a missing LTVj 0
    const std::string axis = std::to_string(edit.axis[k]);
    const double shift = edit.s[k] * edit.offset[k] + 0.5 * (1.0 - edit.s[k]);
    if (!has_diagonal[k] && edit.s[k] != 1.0) edit.add("LTV" + axis, "LTM" + axis + "_" + axis, edit.s[k]);
    if (!has_shift[k] && shift != 0.0) edit.add("LTM" + axis + "_" + axis, "LTV" + axis, shift);
  }
}

void remove_storage_keywords(HeaderEdit& edit) {
  for (const char* key : {"DATASEC", "TRIMSEC", "BIASSEC", "CCDSEC"}) {
    const auto section = edit.header.get<std::string>(key);
    if (!edit.header.has(key)) continue;
    edit.erase(key);
    edit.header.add_history("Cirrus removed " + std::string(key) + " = '" + section.value_or("") +
                            "': it counted the input's pixels");
  }
  edit.erase_if([](std::string_view key) {
    const bool bound = key.starts_with("LBOUND") && key.size() > 6 &&
                       key.substr(6).find_first_not_of("0123456789") == std::string_view::npos;
    return bound || is_storage(key);
  });
}

}  // namespace cirrus::fits
