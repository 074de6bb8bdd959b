// Formatting and reading of single header cards; see card.h.
#include "fits/card.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/errors.h"

namespace cirrus::fits {
namespace {

constexpr std::size_t kNone = std::string::npos;

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

/// NAME1, NAME2, ...
bool is_indexed(std::string_view key, std::string_view name) {
  return key.starts_with(name) && key.size() > name.size() &&
         key.substr(name.size()).find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_standard_keyword(std::string_view key) {
  return key.size() <= 8 && std::all_of(key.begin(), key.end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

/// Length of the value field at the start of `field` (leading blanks included), and whether it is a quoted string.
std::size_t value_length(std::string_view field, bool& quoted) {
  const auto begin = field.find_first_not_of(' ');
  quoted = begin != std::string_view::npos && field[begin] == '\'';
  if (begin == std::string_view::npos) return field.size();
  if (!quoted) return std::min(field.find('/'), field.size());
  for (std::size_t i = begin + 1; i < field.size(); ++i) {
    if (field[i] != '\'') continue;
    if (i + 1 < field.size() && field[i + 1] == '\'') {
      ++i;  // a doubled quote is a quote
    } else {
      return i + 1;
    }
  }
  return field.size();
}

/// "KEYWORD = " or "HIERARCH LONGER KEYWORD = ".
std::string key_part(std::string_view key) {
  if (is_standard_keyword(key)) {
    std::string part(key);
    part.resize(8, ' ');
    return part + "= ";
  }
  if (key.starts_with("HIERARCH ")) key.remove_prefix(9);
  return "HIERARCH " + printable(key) + " = ";
}

std::string card_text(std::string text, const Value& value, std::string_view comment) {
  const std::string field = format_value(value);
  if (text.size() + field.size() > Card::kLength && std::holds_alternative<std::string>(value)) {
    std::size_t keep = text.size() + 2 < Card::kLength ? Card::kLength - text.size() - 1 : 0;
    // A doubled quote must not be cut in half: count the quotes of the content.
    std::string cut = field.substr(0, keep);
    if (!cut.empty() && std::count(cut.begin() + 1, cut.end(), '\'') % 2 != 0) cut.pop_back();
    text += cut + "'";
  } else {
    text += field;
  }
  if (text.size() > Card::kLength) {
    throw Error(ExitCode::internal, "a header card has no room for its value: " + text);
  }
  if (!comment.empty()) {
    if (text.size() < 30) text.resize(30, ' ');
    text += " / " + printable(comment);
  }
  return text;
}

}  // namespace

std::string format_number(double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  std::string text(digits, end);
  std::replace(text.begin(), text.end(), 'e', 'E');
  if (text.find('.') == std::string::npos) {
    const auto exponent = text.find('E');
    text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
  }
  return text;
}

std::string format_value(const Value& value) {
  std::string text;
  if (const auto* logical = std::get_if<bool>(&value)) {
    text = *logical ? "T" : "F";
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    text = std::to_string(*integer);
  } else if (const auto* number = std::get_if<double>(&value)) {
    if (!std::isfinite(*number)) return "";  // FITS headers cannot say NaN: the value is undefined
    text = format_number(*number);
  } else {
    text = "'";
    for (const char c : printable(std::get<std::string>(value))) text += c == '\'' ? "''" : std::string(1, c);
    if (text.size() < 9) text.resize(9, ' ');
    return text + "'";
  }
  return text.size() < 20 ? std::string(20 - text.size(), ' ') + text : text;
}

Card::Card(std::string_view text) : text_(text.substr(0, kLength)) { text_.resize(kLength, ' '); }

Card::Card(std::string_view key, const Value& value, std::string_view comment)
    : Card(card_text(key_part(key), value, comment)) {}

std::size_t Card::value_start() const {
  const std::string_view text = text_;
  if (text.starts_with("HIERARCH ")) {
    const auto equals = text.find('=');
    return equals == std::string_view::npos ? kNone : equals + 1;
  }
  if (text.starts_with("CONTINUE  ")) return 10;
  if (text.substr(8, 2) != "= ") return kNone;
  const auto name = trimmed(text.substr(0, 8));
  return name.empty() || name == "COMMENT" || name == "HISTORY" || name == "END" ? kNone : 10;
}

std::string Card::key() const {
  const std::string_view text = text_;
  if (text.starts_with("HIERARCH ")) {
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) return std::string(trimmed(text.substr(9, equals - 9)));
  }
  const auto name = text.substr(0, 8);
  return std::string(name.substr(0, name.find_last_not_of(' ') + 1));
}

bool Card::is_commentary() const { return value_start() == kNone; }

std::string Card::value_text() const {
  const auto start = value_start();
  if (start == kNone) return "";
  const auto field = std::string_view(text_).substr(start);
  bool quoted = false;
  return std::string(trimmed(field.substr(0, value_length(field, quoted))));
}

std::string Card::comment() const {
  const auto start = value_start();
  if (start == kNone) return "";
  auto field = std::string_view(text_).substr(start);
  bool quoted = false;
  field.remove_prefix(value_length(field, quoted));
  const auto slash = field.find('/');
  return slash == std::string_view::npos ? "" : std::string(trimmed(field.substr(slash + 1)));
}

bool Card::is_string() const { return value_text().starts_with('\''); }

std::optional<double> Card::number() const {
  std::string text = value_text();
  if (text.empty() || text.find_first_not_of("+-.0123456789eEdD") != std::string::npos) return std::nullopt;
  for (char& c : text) {
    if (c == 'd' || c == 'D') c = 'E';
  }
  const char* begin = text.data() + (text[0] == '+' ? 1 : 0);
  const char* end = text.data() + text.size();
  double value = 0.0;
  const auto result = std::from_chars(begin, end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> Card::integer() const {
  const std::string text = value_text();
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  std::int64_t value = 0;
  const auto result = std::from_chars(begin, end, value);
  if (result.ec == std::errc() && result.ptr == end && begin != end) return value;
  const auto real = number();  // 2000.0 is an integer too
  if (real && std::abs(*real) < 9007199254740992.0 && std::floor(*real) == *real) {
    return static_cast<std::int64_t>(*real);
  }
  return std::nullopt;
}

std::optional<bool> Card::logical() const {
  const std::string text = value_text();
  if (text == "T") return true;
  if (text == "F") return false;
  return std::nullopt;
}

std::optional<std::string> Card::string() const {
  const std::string field = value_text();
  if (!field.starts_with('\'')) return std::nullopt;
  std::string content;
  for (std::size_t i = 1; i < field.size(); ++i) {
    if (field[i] == '\'') {
      if (i + 1 >= field.size() || field[i + 1] != '\'') break;
      ++i;
    }
    content += field[i];
  }
  content.erase(content.find_last_not_of(' ') + 1);
  return content;
}

Card Card::with_value(const Value& value) const {
  const auto start = value_start();
  if (start == kNone) throw Error(ExitCode::internal, "a commentary card has no value to set: " + text_);
  std::string head = text_.substr(0, start);
  if (head.back() != ' ') head += ' ';
  return Card(card_text(std::move(head), value, comment()));
}

bool is_structural(std::string_view key) {
  static constexpr std::string_view kNames[] = {"SIMPLE", "XTENSION", "BITPIX", "NAXIS", "EXTEND",
                                                "PCOUNT", "GCOUNT",   "GROUPS", "END"};
  return std::find(std::begin(kNames), std::end(kNames), key) != std::end(kNames) || is_indexed(key, "NAXIS");
}

bool is_storage(std::string_view key) {
  static constexpr std::string_view kNames[] = {"BSCALE",   "BZERO",   "BLANK",   "CHECKSUM", "DATASUM",  "ZIMAGE",
                                                "ZCMPTYPE", "ZBITPIX", "ZNAXIS",  "ZMASKCMP", "ZQUANTIZ", "ZDITHER0",
                                                "ZSCALE",   "ZZERO",   "ZBLANK",  "ZSIMPLE",  "ZTENSION", "ZEXTEND",
                                                "ZBLOCKED", "ZPCOUNT", "ZGCOUNT", "ZHECKSUM", "ZDATASUM", "ZTABLE"};
  return std::find(std::begin(kNames), std::end(kNames), key) != std::end(kNames) || is_indexed(key, "ZNAXIS") ||
         is_indexed(key, "ZTILE") || is_indexed(key, "ZNAME") || is_indexed(key, "ZVAL");
}

}  // namespace cirrus::fits
