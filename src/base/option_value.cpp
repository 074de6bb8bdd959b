// Conversions of option values; see option_value.h.
#include "base/option_value.h"

#include <charconv>
#include <cmath>
#include <type_traits>

namespace cirrus {
namespace {

using Kind = RawValue::Kind;

template <class T>
struct Inner {
  using type = T;
};
template <class T>
struct Inner<std::optional<T>> {
  using type = T;
};
template <class T>
struct Inner<std::vector<T>> {
  using type = T;
};
/// The element type of a field: double for double, std::optional<double> and std::vector<double>.
template <class T>
using Element = typename Inner<T>::type;

template <class T>
inline constexpr bool kIsVector = !std::is_same_v<T, std::string> && requires(T t) {
  t.push_back(Element<T>());
};
template <class T>
inline constexpr bool kIsOptional = std::is_same_v<T, std::optional<Element<T>>>;

std::string convert(const std::string& text, Kind kind, bool& value) {
  if (kind == Kind::text || kind == Kind::boolean) {
    for (const char* yes : {"true", "yes", "on", "1"}) {
      if (text == yes) return value = true, "";
    }
    for (const char* no : {"false", "no", "off", "0"}) {
      if (text == no) return value = false, "";
    }
  }
  return "not true or false";
}

std::string convert(const std::string& text, Kind kind, double& value) {
  if (kind == Kind::boolean || kind == Kind::string) return "not a number";
  const char* end = text.data() + text.size();
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [stop, failure] = std::from_chars(begin, end, value);
  return failure == std::errc() && stop == end && !std::isnan(value) ? "" : "not a number";
}

std::string convert(const std::string& text, Kind kind, std::int64_t& value) {
  if (kind == Kind::boolean || kind == Kind::string) return "not a whole number";
  const char* end = text.data() + text.size();
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [stop, failure] = std::from_chars(begin, end, value);
  if (failure == std::errc() && stop == end) return "";
  double real = 0;  // 1e5 is a whole number, too
  constexpr double kExact = 9007199254740992.0;
  if (!convert(text, kind, real).empty() || real != std::floor(real) || std::abs(real) > kExact)
    return "not a whole number";
  value = static_cast<std::int64_t>(real);
  return "";
}

// A string field may hold a number or "auto": configuration files may then give the number without quotes.
std::string convert(const std::string& text, Kind, std::string& value) { return value = text, ""; }

std::string toml(bool value) { return value ? "true" : "false"; }
std::string toml(std::int64_t value) { return std::to_string(value); }

std::string toml(double value) {
  std::string text = shortest(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";  // else TOML would read a whole number
  return text;
}

std::string toml(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (code < 0x20 || code == 0x7f) {
      constexpr const char* kDigits = "0123456789abcdef";
      text += std::string("\\u00") + kDigits[code >> 4] + kDigits[code & 15];
    } else {
      text += c;
    }
  }
  return text + "\"";
}

template <class T>
std::string plain(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) return value;
  if constexpr (std::is_same_v<T, double>) return shortest(value);
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t>) return toml(value);
}

template <class T>
std::string assign_to(T& field, const RawValue& value, bool append) {
  if constexpr (kIsVector<T>) {
    if (value.kind != Kind::array && value.kind != Kind::text) return "not a list [a, b, ...]";
    T list = append ? field : T();
    for (const std::string& item : value.items) {
      Element<T> element{};
      if (std::string wrong = convert(item, Kind::text, element); !wrong.empty())
        return "not a list of numbers (" + item + ")";
      list.push_back(std::move(element));
    }
    field = std::move(list);
    return "";
  } else {
    if (value.kind == Kind::array || value.items.size() != 1) return "not a single value";
    Element<T> element{};
    if (std::string wrong = convert(value.items.front(), value.kind, element); !wrong.empty()) return wrong;
    field = std::move(element);
    return "";
  }
}

}  // namespace

std::string assign(const Field& field, const RawValue& value, bool append) {
  if (value.kind == Kind::other)
    return "not a value Cirrus can read (true or false, number, string, or a list of them)";
  return std::visit([&](auto* target) { return assign_to(*target, value, append); }, field);
}

bool is_switch(const Field& field) {
  return std::holds_alternative<bool*>(field) || std::holds_alternative<std::optional<bool>*>(field);
}

bool is_list(const Field& field) {
  return std::visit([](auto* target) { return kIsVector<std::remove_pointer_t<decltype(target)>>; }, field);
}

std::string type_name(const Field& field) {
  return std::visit(
      [](auto* target) -> std::string {
        using T = std::remove_pointer_t<decltype(target)>;
        using E = Element<T>;
        const std::string name = std::is_same_v<E, std::int64_t> ? "N" : std::is_same_v<E, double> ? "X" : "TEXT";
        return kIsVector<T> ? name + "," + name + ",..." : name;
      },
      field);
}

std::string toml_text(const Field& field) {
  return std::visit(
      [](auto* target) -> std::string {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (kIsOptional<T>) {
          return *target ? toml(**target) : "";
        } else if constexpr (kIsVector<T>) {
          std::string text = "[";
          for (const auto& element : *target) text += (text.size() > 1 ? ", " : "") + toml(element);
          return text + "]";
        } else {
          return toml(*target);
        }
      },
      field);
}

std::string plain_text(const Field& field) {
  return std::visit(
      [](auto* target) -> std::string {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (kIsOptional<T>) {
          return *target ? plain(**target) : "";
        } else if constexpr (kIsVector<T>) {
          std::string text;
          for (const auto& element : *target) text += (text.empty() ? "" : ",") + plain(element);
          return text;
        } else {
          return plain(*target);
        }
      },
      field);
}

std::vector<double> numbers_of(const Field& field) {
  return std::visit(
      [](auto* target) -> std::vector<double> {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (!std::is_same_v<Element<T>, double> && !std::is_same_v<Element<T>, std::int64_t>) {
          return {};
        } else if constexpr (kIsVector<T>) {
          return std::vector<double>(target->begin(), target->end());
        } else if constexpr (kIsOptional<T>) {
          return *target ? std::vector<double>{static_cast<double>(**target)} : std::vector<double>{};
        } else {
          return {static_cast<double>(*target)};
        }
      },
      field);
}

std::vector<std::string> strings_of(const Field& field) {
  if (const auto* text = std::get_if<std::string*>(&field)) return {**text};
  if (const auto* list = std::get_if<std::vector<std::string>*>(&field)) return **list;
  if (const auto* maybe = std::get_if<std::optional<std::string>*>(&field); maybe != nullptr && **maybe)
    return {***maybe};
  return {};
}

std::string shortest(double number) {
  char text[40];
  const auto [end, failure] = std::to_chars(text, text + sizeof text, number);
  return failure == std::errc() ? std::string(text, end) : std::string();
}

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> items;
  if (text.empty()) return items;
  std::size_t begin = 0;
  for (std::size_t comma; (comma = text.find(',', begin)) != std::string::npos; begin = comma + 1) {
    items.push_back(text.substr(begin, comma - begin));
  }
  items.push_back(text.substr(begin));
  return items;
}

}  // namespace cirrus
