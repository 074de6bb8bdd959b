// Parsing WCS keywords; see wcs_keyword.h.
#include "fits/wcs_keyword.h"

#include <cctype>
#include <cmath>
#include <numbers>

namespace cirrus::fits {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Reads digits at the front of `text` (at most three) and removes them; 0 if there are none.
int take_number(std::string_view& text) {
  int value = 0;
  for (int digits = 0; digits < 3 && !text.empty() && is_digit(text.front()); ++digits) {
    value = 10 * value + (text.front() - '0');
    text.remove_prefix(1);
  }
  return value;
}

constexpr std::string_view kSingle[] = {"CTYPE", "CRPIX", "CRVAL", "CDELT", "CROTA", "CUNIT",   "CPDIS",
                                        "CQDIS", "CPERR", "CQERR", "LTV",   "DP",    "D2IMDIS", "D2IMERR"};
constexpr std::string_view kPair[] = {"PC", "CD", "LTM"};

}  // namespace

std::optional<WcsKeyword> parse_wcs_keyword(std::string_view key) {
  const auto finish = [](WcsKeyword word, std::string_view rest) -> std::optional<WcsKeyword> {
    if (rest.size() == 1 && rest[0] >= 'A' && rest[0] <= 'Z') {
      word.alternate = rest[0];
    } else if (!rest.empty()) {
      return std::nullopt;
    }
    return word;
  };
  for (const std::string_view family : kPair) {
    if (!key.starts_with(family)) continue;
    std::string_view rest = key.substr(family.size());
    WcsKeyword word{family};
    const bool six = rest.size() >= 6 && rest.find('_') == std::string_view::npos;  // PC001002
    word.i = take_number(rest);
    if (!six && rest.starts_with('_')) {
      rest.remove_prefix(1);
    } else if (!six) {
      continue;  // CDELT starts with CD, too
    }
    word.j = take_number(rest);
    return word.i > 0 && word.j > 0 ? finish(word, rest) : std::nullopt;
  }
  for (const std::string_view family : kSingle) {
    if (!key.starts_with(family)) continue;
    std::string_view rest = key.substr(family.size());
    WcsKeyword word{family};
    word.i = take_number(rest);
    if (word.i > 0) return finish(word, rest);
  }
  return std::nullopt;
}

bool describes_coordinates(const WcsKeyword& word) {
  for (const char* family : {"CTYPE", "CRPIX", "CRVAL", "CDELT", "CROTA", "CD", "PC"}) {
    if (word.family == family) return true;
  }
  return false;
}

LinearKeywords linear_keywords(const Header& header, char alternate, int axis_x, int axis_y) {
  LinearKeywords found;
  const auto on_image = [&](int axis) { return axis == axis_x || axis == axis_y; };
  for (const Card& card : header.cards()) {
    const std::string key = card.key();
    const auto word = parse_wcs_keyword(key);
    if (!word || word->alternate != alternate || card.is_commentary()) continue;
    const auto is = [&](std::string_view family) { return word->family == family; };
    found.any = found.any || describes_coordinates(*word);
    if (is("CQDIS")) found.sequent = true;
    if (!card.number()) continue;
    found.has_cdelt = found.has_cdelt || is("CDELT");
    found.has_crota = found.has_crota || is("CROTA");
    found.has_cd = found.has_cd || is("CD");
    if (is("PC")) {
      found.has_pc = true;
      if (*card.number() != 0.0 && word->i != word->j) {
        if (on_image(word->i) && on_image(word->j)) found.off_diagonal = true;
        if (on_image(word->i) != on_image(word->j)) found.mixes = true;
      }
    }
  }
  found.form = found.has_pc      ? LinearForm::pc
               : found.has_cd    ? LinearForm::cd
               : found.has_crota ? LinearForm::crota
                                 : LinearForm::cdelt;
  return found;
}

std::array<double, 4> linear_matrix(const Header& header, int axis_x, int axis_y) {
  const LinearForm form = linear_keywords(header, ' ', axis_x, axis_y).form;
  std::array<double, 4> pc = {1.0, 0.0, 0.0, 1.0}, cd = {0.0, 0.0, 0.0, 0.0};
  std::array<double, 2> cdelt = {1.0, 1.0};
  double crota = 0.0;
  for (const Card& card : header.cards()) {  // of duplicates the last one counts, as for WCSLIB
    const std::string key = card.key();
    const auto word = parse_wcs_keyword(key);
    const auto value = card.number();
    if (!word || !value || word->alternate != ' ') continue;
    const auto slot = [&](int axis) { return axis == axis_x ? 0 : axis == axis_y ? 1 : -1; };
    const int i = slot(word->i), j = slot(word->j);
    if (word->family == "CDELT" && i >= 0) cdelt[static_cast<std::size_t>(i)] = *value;
    if (word->family == "CROTA" && i == 1) crota = *value * std::numbers::pi / 180.0;
    if (i < 0 || j < 0) continue;
    const auto element = 2 * static_cast<std::size_t>(i) + static_cast<std::size_t>(j);
    if (word->family == "PC") pc[element] = *value;
    if (word->family == "CD") cd[element] = *value;
  }
  if (form == LinearForm::cd) return cd;
  if (form == LinearForm::crota) {  // Greisen & Calabretta 2002, equation 189
    return {cdelt[0] * std::cos(crota), -cdelt[1] * std::sin(crota), cdelt[0] * std::sin(crota),
            cdelt[1] * std::cos(crota)};
  }
  return {cdelt[0] * pc[0], cdelt[0] * pc[1], cdelt[1] * pc[2], cdelt[1] * pc[3]};
}

}  // namespace cirrus::fits
