// One 80-character header card: its keyword, value and comment as the FITS standard 4.0 (section 4) and the HIERARCH
// convention lay them out. A card keeps its bytes until a value is set; then only that card is formatted anew. Lists of
// cards: header.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace cirrus::fits {

/// What a card can hold. A double is written with as many digits as it needs to be read back exactly.
using Value = std::variant<bool, std::int64_t, double, std::string>;

class Card {
public:
  static constexpr std::size_t kLength = 80;

  /// A card from its bytes, padded with blanks or cut to 80.
  explicit Card(std::string_view text);
  /// A card made of its parts. Keywords longer than 8 characters, or with other characters than A-Z 0-9 - _, become
  /// HIERARCH cards. A comment that does not fit is cut; a string that does not fit is cut too (Header::set writes
  /// CONTINUE cards).
  Card(std::string_view key, const Value& value, std::string_view comment = "");

  const std::string& text() const noexcept { return text_; }
  /// The keyword without trailing blanks ("" for a blank card); for HIERARCH cards the words between HIERARCH and "=".
  std::string key() const;
  bool is_commentary() const;  ///< COMMENT, HISTORY, blank keyword, or no value indicator
  /// The value field as it stands (quotes included), without comment; "" for commentary and undefined values.
  std::string value_text() const;
  std::string comment() const;
  bool is_string() const;
  /// The value if it has this type: numbers are unquoted and finite (Fortran's D exponent too), logicals are T or F.
  std::optional<double> number() const;
  std::optional<std::int64_t> integer() const;
  std::optional<bool> logical() const;
  /// A quoted string, quotes undoubled, trailing blanks removed; a continuation mark '&' stays.
  std::optional<std::string> string() const;
  /// The card with another value, keyword and comment kept.
  Card with_value(const Value& value) const;

private:
  std::size_t value_start() const;  // column after "= ", or npos
  std::string text_;
};

/// The value as the standard prints it: right-aligned to 20 characters unless a string.
std::string format_value(const Value& value);

/// The shortest decimal form of a finite number that reads back as the same double, with a point or exponent in it
/// ("4.0").
std::string format_number(double value);

/// Keywords that say how an HDU is laid out (SIMPLE, BITPIX, NAXISn, EXTEND, ...): the file's, not the map's.
bool is_structural(std::string_view key);

/// Keywords that say how pixels are stored (BSCALE, BZERO, BLANK, tile compression, CHECKSUM, DATASUM): gone once they
/// are read.
bool is_storage(std::string_view key);

}  // namespace cirrus::fits
