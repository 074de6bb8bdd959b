// Rewriting the keywords that carry the pixel; see scale.h. Linear WCS here, the rest in scale_extras.cpp.
#include "fits/scale.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/errors.h"
#include "fits/scale_edit.h"
#include "fits/wcs_keyword.h"

namespace cirrus::fits {
namespace {

/// One WCS description of the header and what is done to it.
class LinearScaler {
public:
  LinearScaler(HeaderEdit& edit, char alternate)
      : edit_(edit),
        alternate_(alternate),
        found_(linear_keywords(edit.header, alternate, edit.axis[0], edit.axis[1])) {}

  void run() {
    if (!found_.any) return;  // an orphan (LONPOLEA alone) stays
    scale_reference_pixel();
    resolve_conflicts();
    const bool by_pc =
        (found_.form == LinearForm::pc && divide_columns()) || (found_.form == LinearForm::cdelt && found_.sequent);
    if (found_.form == LinearForm::cd) {
      scale_columns("CD");
      scale_cdelt_beside_cd();
    } else if (by_pc) {
      scale_columns("PC");
    } else {
      scale_cdelt();
    }
  }

private:
  /// CDELT multiplies rows: dividing it equals dividing columns only if the two image axes are scaled alike and apart
  /// from the rest, and nothing acts between matrix and CDELT.
  bool divide_columns() const {
    return found_.sequent || found_.mixes || (edit_.s[0] != edit_.s[1] && found_.off_diagonal);
  }

  std::string name(std::string_view family, int i, int j = 0) const {
    std::string key = std::string(family) + std::to_string(i);
    if (j > 0) key += "_" + std::to_string(j);
    return alternate_ == ' ' ? key : key + alternate_;
  }

  /// Calls `change(position, value or default)` for every card of family (i, j), duplicates and undefined values
  /// included.
  template <typename Change>
  int each(std::string_view family, int i, int j, double absent, Change change) {
    int count = 0;
    for (std::size_t at = 0; at < edit_.header.size(); ++at) {
      const Card& card = edit_.header.cards()[at];
      const std::string key = card.key();
      const auto word = parse_wcs_keyword(key);
      if (!word || word->family != family || word->alternate != alternate_ || card.is_commentary()) continue;
      if ((i > 0 && word->i != i) || (j > 0 && word->j != j)) continue;
      const auto value = card.number();
      if (!value && !(i > 0 && family != "PC" && family != "CD")) continue;
      if (!value) edit_.warn(key + " has no numeric value: read as " + format_number(absent));
      change(at, value.value_or(absent));
      ++count;
    }
    if (count > 1 && i > 0 && (j > 0 || family == "CRPIX" || family == "CDELT")) {
      edit_.warn(name(family, i, j) + " stands " + std::to_string(count) + " times in the header: all were changed");
    }
    return count;
  }

  /// Where a keyword that was missing goes: behind its kin.
  std::string neighbour(std::initializer_list<std::string> keys) const {
    for (const std::string& key : keys) {
      if (edit_.header.has(key)) return key;
    }
    return "";
  }

  void scale_reference_pixel() {
    for (int k = 0; k < 2; ++k) {
      const int axis = edit_.axis[k];
      const auto moved = [&](double x) { return edit_.s[k] * (x + edit_.offset[k] - 0.5) + 0.5; };
      const int count = each("CRPIX", axis, 0, 0.0, [&](std::size_t at, double x) { edit_.set_at(at, moved(x)); });
      if (count == 0 && moved(0.0) != 0.0) {
        edit_.add(neighbour({name("CRPIX", edit_.axis[1 - k]), name("CRVAL", axis), name("CTYPE", axis)}),
                  name("CRPIX", axis), moved(0.0));
      }
    }
  }

  void scale_columns(std::string_view family) {
    for (int k = 0; k < 2; ++k) {
      const int axis = edit_.axis[k];
      bool diagonal = family == "CD";  // a missing PCj_j is 1, a missing CDj_j 0
      each(family, 0, axis, 0.0, [&](std::size_t at, double x) {
        const std::string key = edit_.header.cards()[at].key();
        diagonal = diagonal || parse_wcs_keyword(key)->i == axis;
        edit_.set_at(at, x / edit_.s[k]);
      });
      if (!diagonal && edit_.s[k] != 1.0) {
        edit_.add(
            neighbour({name("PC", edit_.axis[1 - k], edit_.axis[1 - k]), name("CDELT", axis), name("CRPIX", axis)}),
            name("PC", axis, axis), 1.0 / edit_.s[k]);
      }
    }
  }

  void scale_cdelt() {
    for (int k = 0; k < 2; ++k) {
      const int axis = edit_.axis[k];
      const int count =
          each("CDELT", axis, 0, 1.0, [&](std::size_t at, double x) { edit_.set_at(at, x / edit_.s[k]); });
      if (count == 0 && edit_.s[k] != 1.0) {
        edit_.add(neighbour({name("CDELT", edit_.axis[1 - k]), name("CRPIX", axis), name("CRVAL", axis)}),
                  name("CDELT", axis), 1.0 / edit_.s[k]);
      }
    }
  }

  /// Beside CD, CDELT means nothing to WCSLIB but something to other programs: kept where it agrees with CD, else
  /// removed.
  void scale_cdelt_beside_cd() {
    if (!found_.has_cdelt) return;
    bool agrees = true;
    for (int k = 0; k < 2; ++k) {
      double norm = 0.0;
      each("CD", 0, edit_.axis[k], 0.0, [&](std::size_t, double x) { norm = std::hypot(norm, x); });
      const auto cdelt = edit_.header.get<double>(name("CDELT", edit_.axis[k]));
      agrees = agrees && cdelt && std::abs(std::abs(*cdelt) / edit_.s[k] - norm) <= 0.01 * norm;
    }
    if (agrees) {
      scale_cdelt();
      edit_.warn("CD and CDELT are both present: CD counts, CDELT was scaled with it");
    } else {
      for (const int axis : edit_.axis) edit_.erase(name("CDELT", axis));
      edit_.header.add_history("Cirrus removed CDELT of the image axes: it contradicted the CD matrix");
      edit_.warn("CD and CDELT are both present and disagree: CD counts, CDELT was removed");
    }
  }

  /// PC and CD may not coexist: WCSLIB reads PC, so CD goes.
  void resolve_conflicts() {
    if (!found_.has_pc || !found_.has_cd) return;
    edit_.erase_if([this](std::string_view key) {
      const auto word = parse_wcs_keyword(key);
      return word && word->family == "CD" && word->alternate == alternate_;
    });
    edit_.header.add_history("Cirrus removed the CD matrix: FITS forbids it beside PC, which WCSLIB reads");
    edit_.warn("PC and CD are both present: WCSLIB reads PC, so CD was removed (check the input's coordinates)");
  }

  HeaderEdit& edit_;
  char alternate_;
  LinearKeywords found_;
};

}  // namespace

std::string wcs_alternates(const Header& header) {
  std::array<bool, 128> found{};
  for (const Card& card : header.cards()) {
    const std::string key = card.key();
    const auto word = parse_wcs_keyword(key);
    if (word && describes_coordinates(*word) && !card.is_commentary())
      found[static_cast<unsigned char>(word->alternate)] = true;
  }
  std::string letters;
  for (const char alternate : std::string(" ABCDEFGHIJKLMNOPQRSTUVWXYZ")) {
    if (found[static_cast<unsigned char>(alternate)]) letters += alternate;
  }
  return letters;
}

ScaleReport scale_header(Header& header, double sx, double sy, const ScaleOptions& options) {
  for (const double value : {sx, sy}) {
    if (!std::isfinite(value) || value <= 0.0) {
      throw Error(ExitCode::internal, "a header cannot be scaled by " + format_number(value));
    }
  }
  Header scaled = header;
  HeaderEdit edit{scaled, {options.axis_x, options.axis_y}, {sx, sy}, {options.offset_x, options.offset_y}, {}};
  remove_pixel_distortion(edit, options.drop_distortion);
  scale_pixel_sizes(edit);  // compares with the WCS scale: before that changes
  for (const char alternate : wcs_alternates(scaled)) LinearScaler(edit, alternate).run();
  for (const char* key : {"CTYPE1", "CTYPE2", "CTYPE3"}) {
    if (scaled.get<std::string>(key).value_or("").ends_with("-TAB")) {
      edit.warn(std::string(key) +
                " takes its coordinates from a table in another HDU, which the output does not have");
    }
  }
  scale_sip(edit);
  scale_plate_solution(edit);
  scale_physical(edit);
  remove_storage_keywords(edit);
  for (int k = 0; k < 2; ++k) {
    const std::string key = "NAXIS" + std::to_string(edit.axis[k]);
    const auto position = scaled.find(key);
    const auto length = scaled.get<double>(key);
    if (position && length) {
      const double longer = std::floor(*length * edit.s[k] + 1e-6);
      if (longer >= 0.0 && longer < 9e15) edit.set_at(*position, longer);
    }
  }
  header = std::move(scaled);
  return edit.report;
}

}  // namespace cirrus::fits
