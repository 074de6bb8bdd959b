// TOML into a flat list of dotted keys with their lines. The only file that includes toml++.
#include <toml++/toml.h>

#include <algorithm>

#include "base/errors.h"
#include "base/files.h"
#include "base/option_value.h"

namespace cirrus {
namespace {

using Kind = RawValue::Kind;

bool scalar(const toml::node& node, RawValue& value) {
  if (const auto* flag = node.as_boolean()) {
    value = {Kind::boolean, {flag->get() ? "true" : "false"}, {}};
  } else if (const auto* whole = node.as_integer()) {
    value = {Kind::integer, {std::to_string(whole->get())}, {}};
  } else if (const auto* real = node.as_floating_point()) {
    value = {Kind::real, {shortest(real->get())}, {}};
  } else if (const auto* text = node.as_string()) {
    value = {Kind::string, {text->get()}, {}};
  } else {
    return false;
  }
  value.shown = value.items.front();
  return true;
}

RawValue raw_value(const toml::node& node) {
  RawValue value;
  if (scalar(node, value)) return value;
  if (const auto* array = node.as_array()) {
    value = {Kind::array, {}, "["};
    for (const toml::node& element : *array) {
      RawValue item;
      if (!scalar(element, item)) return {Kind::other, {}, "[...]"};
      value.shown += (value.items.empty() ? "" : ", ") + item.shown;
      value.items.push_back(item.items.front());
    }
    value.shown += "]";
    return value;
  }
  return {Kind::other, {}, "..."};
}

void flatten(const toml::table& table, const std::string& prefix, std::vector<ConfigEntry>& entries) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (const auto* inner = node.as_table()) {
      flatten(*inner, key + ".", entries);
    } else {
      entries.push_back({key, raw_value(node), node.source().begin.line});
    }
  }
}

}  // namespace

std::vector<ConfigEntry> read_config(const std::string& path) {
  std::vector<ConfigEntry> entries;
  try {
    flatten(toml::parse(read_text(path), path), "", entries);
  } catch (const toml::parse_error& failure) {
    throw Error(ExitCode::config, path + ", line " + std::to_string(failure.source().begin.line) +
                                      ": not valid TOML: " + std::string(failure.description()));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  return entries;
}

std::optional<RawValue> toml_value(const std::string& text) {
  try {
    const toml::table table = toml::parse("value = " + text);
    return table.size() == 1 ? std::optional(raw_value(*table.get("value"))) : std::nullopt;
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace cirrus
