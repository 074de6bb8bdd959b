// The list of cards: finding, setting, long strings, commentary; see header.h.
#include "fits/header.h"

#include <algorithm>

#include "base/errors.h"

namespace cirrus::fits {
namespace {

constexpr std::size_t kBlock = 2880;
constexpr std::size_t kCommentaryWidth = 72;

/// FITS headers are printable ASCII.
bool blank_forbidden_bytes(std::string& text) {
  bool any = false;
  for (char& c : text) {
    if (c >= ' ' && c <= '~') continue;
    c = ' ';
    any = true;
  }
  return any;
}

/// The cards that hold a string of any length: one, or one and CONTINUE cards. `comment` goes to the last.
std::vector<Card> string_cards(std::string_view key, const std::string& value, std::string_view comment) {
  const Card empty(key, std::string());
  const std::size_t start = empty.text().find('\'');
  std::vector<Card> cards;
  std::size_t done = 0;
  std::size_t room = Card::kLength - start - 2;
  const auto quoted_size = [](std::string_view text) {
    return text.size() + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\''));
  };
  while (true) {
    const std::string_view rest = std::string_view(value).substr(done);
    const bool last = quoted_size(rest) <= room;
    std::size_t length = rest.size();
    if (!last) {
      length = std::min(rest.size(), room - 1);  // one column for the '&'
      while (length > 0 && quoted_size(rest.substr(0, length)) > room - 1) --length;
    }
    std::string piece(rest.substr(0, length));
    if (!last) piece += '&';
    if (cards.empty()) {
      cards.emplace_back(key, piece, last ? comment : "");
    } else {
      const Card continued("CONTINUE", piece, last ? comment : "");
      cards.emplace_back("CONTINUE  " + continued.text().substr(10));
    }
    if (last) return cards;
    if (length == 0 && cards.size() > 1) throw Error(ExitCode::internal, "a string does not fit into a header");
    done += length;
    room = Card::kLength - 10 - 2;
  }
}

}  // namespace

Header Header::parse(std::string_view bytes, std::vector<std::string>* warnings) {
  Header header;
  std::size_t bad_cards = 0;
  for (std::size_t start = 0; start < bytes.size(); start += Card::kLength) {
    std::string text(bytes.substr(start, Card::kLength));
    const bool bad = blank_forbidden_bytes(text);
    const Card card(text);
    if (card.key() == "END" && card.is_commentary()) break;
    bad_cards += bad ? 1 : 0;
    header.cards_.push_back(card);
  }
  if (bad_cards > 0 && warnings != nullptr) {
    warnings->push_back(
        std::to_string(bad_cards) +
        " header card(s) hold bytes that FITS forbids (line breaks, accents): blanks stand in their place");
  }
  return header;
}

Header Header::from_lines(std::string_view lines) {
  Header header;
  while (!lines.empty()) {
    const auto end = std::min(lines.find('\n'), lines.size());
    std::string text(lines.substr(0, end));
    blank_forbidden_bytes(text);
    header.cards_.emplace_back(text);
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return header;
}

std::string Header::text() const {
  std::string text;
  text.reserve((cards_.size() + 36) * Card::kLength);
  for (const Card& card : cards_) text += card.text();
  text += Card("END").text();
  text.resize((text.size() + kBlock - 1) / kBlock * kBlock, ' ');
  return text;
}

std::optional<std::size_t> Header::find(std::string_view key, std::size_t from) const {
  for (std::size_t i = from; i < cards_.size(); ++i) {
    const char first = cards_[i].text()[0];  // most cards differ in it ('H' also opens HIERARCH)
    if ((key.empty() || first == key[0] || first == 'H') && cards_[i].key() == key) return i;
  }
  return std::nullopt;
}

template <>
std::optional<double> Header::get(std::string_view key) const {
  const auto position = find(key);
  return position ? cards_[*position].number() : std::nullopt;
}

template <>
std::optional<std::int64_t> Header::get(std::string_view key) const {
  const auto position = find(key);
  return position ? cards_[*position].integer() : std::nullopt;
}

template <>
std::optional<int> Header::get(std::string_view key) const {
  const auto value = get<std::int64_t>(key);
  if (!value || *value != static_cast<int>(*value)) return std::nullopt;
  return static_cast<int>(*value);
}

template <>
std::optional<bool> Header::get(std::string_view key) const {
  const auto position = find(key);
  return position ? cards_[*position].logical() : std::nullopt;
}

template <>
std::optional<std::string> Header::get(std::string_view key) const {
  const auto position = find(key);
  return position ? string_at(*position) : std::nullopt;
}

std::size_t Header::continuation_end(std::size_t position) const {
  std::size_t end = position + 1;
  auto value = cards_[position].string();
  while (value && value->ends_with('&') && end < cards_.size() && cards_[end].key() == "CONTINUE" &&
         cards_[end].is_string()) {
    value = cards_[end++].string();
  }
  return end;
}

std::optional<std::string> Header::string_at(std::size_t position) const {
  auto value = cards_.at(position).string();
  const std::size_t end = continuation_end(position);
  for (std::size_t i = position + 1; i < end; ++i) {
    value->pop_back();
    *value += *cards_[i].string();
  }
  return value;
}

std::string Header::comment(std::string_view key) const {
  const auto position = find(key);
  return position ? cards_[continuation_end(*position) - 1].comment() : "";
}

std::vector<std::string> Header::commentary(std::string_view key) const {
  std::vector<std::string> lines;
  for (const Card& card : cards_) {
    if (card.key() != key || !card.is_commentary()) continue;
    std::string line = card.text().substr(8);
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

void Header::set(std::string_view key, const Value& value, std::string_view comment) {
  auto position = find(key);
  while (position && cards_[*position].is_commentary()) position = find(key, *position + 1);
  const auto* string = std::get_if<std::string>(&value);
  if (!position) {
    const auto cards = string ? string_cards(key, *string, comment) : std::vector<Card>{Card(key, value, comment)};
    cards_.insert(cards_.end(), cards.begin(), cards.end());
    return;
  }
  const std::size_t end = continuation_end(*position);
  const std::string kept = comment.empty() ? cards_[end - 1].comment() : std::string(comment);
  const auto cards = string ? string_cards(key, *string, kept) : std::vector<Card>{Card(key, value, kept)};
  const auto first = cards_.begin() + static_cast<std::ptrdiff_t>(*position);
  const auto place = cards_.erase(first, cards_.begin() + static_cast<std::ptrdiff_t>(end));
  cards_.insert(place, cards.begin(), cards.end());
}

void Header::set_at(std::size_t position, const Value& value) {
  const std::size_t end = continuation_end(position);
  cards_.erase(cards_.begin() + static_cast<std::ptrdiff_t>(position) + 1,
               cards_.begin() + static_cast<std::ptrdiff_t>(end));
  cards_[position] = cards_[position].with_value(value);
}

void Header::insert_after(std::string_view after, std::string_view key, const Value& value, std::string_view comment) {
  if (has(key)) return set(key, value, comment);
  std::size_t place = cards_.size();
  for (std::size_t i = cards_.size(); i-- > 0;) {
    if (cards_[i].key() == after) {
      place = continuation_end(i);
      break;
    }
  }
  cards_.insert(cards_.begin() + static_cast<std::ptrdiff_t>(place), Card(key, value, comment));
}

std::size_t Header::erase(std::string_view key) {
  std::size_t count = 0;
  for (auto position = find(key); position; position = find(key, *position)) {
    erase_at(*position);
    ++count;
  }
  return count;
}

void Header::erase_at(std::size_t position) {
  const auto first = cards_.begin() + static_cast<std::ptrdiff_t>(position);
  cards_.erase(first, cards_.begin() + static_cast<std::ptrdiff_t>(continuation_end(position)));
}

std::size_t Header::rename(std::string_view from, std::string_view to) {
  std::size_t count = 0;
  std::string name(to.substr(0, 8));
  name.resize(8, ' ');
  for (Card& card : cards_) {
    if (card.key() != from || card.text().starts_with("HIERARCH")) continue;
    card = Card(name + card.text().substr(8));
    ++count;
  }
  return count;
}

void Header::add_commentary(std::string_view key, std::string_view text) {
  std::string name(key);
  name.resize(8, ' ');
  do {
    std::string_view line = text.substr(0, std::min(text.find('\n'), text.size()));
    std::size_t skip = std::min(line.size() + 1, text.size());
    if (line.size() > kCommentaryWidth) {
      const auto blank = line.rfind(' ', kCommentaryWidth);
      const bool at_blank = blank != std::string_view::npos && blank > 0;
      line = line.substr(0, at_blank ? blank : kCommentaryWidth);
      skip = line.size() + (at_blank ? 1 : 0);
    }
    std::string clean(line);
    for (char& c : clean) {
      if (c < ' ' || c > '~') c = '?';
    }
    cards_.emplace_back(name + clean);
    text.remove_prefix(skip);
  } while (!text.empty());
}

}  // namespace cirrus::fits
