// A FITS header as an ordered list of 80-character cards, edited in place: order, comments and unknown cards stay, and
// a card is formatted anew only when its value changes. Duplicates, undefined values, CONTINUE and HIERARCH cards
// survive. Knows no CFITSIO.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fits/card.h"

namespace cirrus::fits {

class Header {
public:
  /// Cards from the bytes of a header (80 a card, up to END or the end of the text). Bytes that FITS forbids become
  /// blanks, with one warning for all of them.
  static Header parse(std::string_view bytes, std::vector<std::string>* warnings = nullptr);
  /// Cards from lines of text, one a line, each padded or cut to 80; forbidden bytes become blanks.
  static Header from_lines(std::string_view lines);
  /// All cards and END, 80 bytes each, padded with blanks to a multiple of 2880.
  std::string text() const;

  const std::vector<Card>& cards() const noexcept { return cards_; }
  std::size_t size() const noexcept { return cards_.size(); }

  bool has(std::string_view key) const { return find(key).has_value(); }
  /// Position of the first card with this keyword at or after `from`.
  std::optional<std::size_t> find(std::string_view key, std::size_t from = 0) const;
  /// Value of the first card with this keyword, if it has one of this type: double, int, std::int64_t, bool,
  /// std::string (with its CONTINUE cards joined). Undefined values and values of another type give nullopt.
  template <typename T>
  std::optional<T> get(std::string_view key) const;
  /// The string at a position, CONTINUE cards joined.
  std::optional<std::string> string_at(std::size_t position) const;
  /// Comment text of the first card with this keyword.
  std::string comment(std::string_view key) const;
  /// Text of all COMMENT or HISTORY cards.
  std::vector<std::string> commentary(std::string_view key) const;

  /// Sets the first card with this keyword where it stands (keeping its comment if none is given), or appends one.
  /// Strings that do not fit continue on CONTINUE cards.
  void set(std::string_view key, const Value& value, std::string_view comment = "");
  /// Sets the value of the card at a position, whatever duplicates there are.
  void set_at(std::size_t position, const Value& value);
  /// Puts a card behind the last card with keyword `after` (at the end if there is none), or sets `key` where it
  /// already stands.
  void insert_after(std::string_view after, std::string_view key, const Value& value, std::string_view comment = "");
  /// Removes every card with this keyword and its CONTINUE cards; returns how many keywords went.
  std::size_t erase(std::string_view key);
  /// Removes the card at a position and the CONTINUE cards that belong to it.
  void erase_at(std::size_t position);
  /// Gives every card with keyword `from` the keyword `to` (at most 8 characters); returns how many.
  std::size_t rename(std::string_view from, std::string_view to);
  /// Appends a card as it is.
  void append(const Card& card) { cards_.push_back(card); }
  /// Appends COMMENT or HISTORY cards, text broken at 72 characters (at a blank if there is one).
  void add_comment(std::string_view text) { add_commentary("COMMENT", text); }
  void add_history(std::string_view text) { add_commentary("HISTORY", text); }

private:
  void add_commentary(std::string_view key, std::string_view text);
  std::size_t continuation_end(std::size_t position) const;
  std::vector<Card> cards_;
};

}  // namespace cirrus::fits
