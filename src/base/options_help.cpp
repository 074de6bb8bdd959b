// What the registry prints: --help, --print-config, and the flags for completion scripts.
#include <algorithm>
#include <map>

#include "base/option_value.h"
#include "base/options.h"

namespace cirrus {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kHelpColumn = 30;

/// `left` in the first column, `right` wrapped in the second.
std::string row(const std::string& left, const std::string& right) {
  std::string line = "  " + left;
  std::string text;
  if (line.size() + 2 > kHelpColumn) {
    text = line + "\n";
    line.clear();
  }
  line.resize(kHelpColumn, ' ');
  std::size_t begin = 0;
  bool first_word = true;
  while (begin < right.size()) {
    const std::size_t end = std::min(right.find(' ', begin), right.size());
    const std::string word = right.substr(begin, end - begin);
    if (!first_word && line.size() + 1 + word.size() > kWidth) {
      text += line + "\n";
      line = std::string(kHelpColumn, ' ');
      first_word = true;
    }
    line += (first_word ? "" : " ") + word;
    first_word = false;
    begin = end + 1;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return text + line + "\n";
}

std::string source_text(Source source, const std::string& origin) {
  if (source == Source::by_default) return "default";
  if (source == Source::file) return "file " + origin;
  if (source == Source::environment) return origin;
  return source == Source::set ? "--set" : "flag " + origin;
}

}  // namespace

std::string Options::option_help(const Option& option) const {
  std::string text = option.help_;
  if (!option.choices_.empty()) {
    text += ":";
    for (const std::string& choice : option.choices_) text += (choice == option.choices_.front() ? " " : "|") + choice;
  }
  const std::string shown = option.default_text_.empty() ? option.initial_ : option.default_text_;
  const bool says_itself = is_switch(option.field_) && shown == "false";
  if (option.required_) return text + " (required)";
  return shown.empty() || says_itself ? text : text + " (default: " + (shown == "true" ? "yes" : shown) + ")";
}

std::string Options::flag_help(const Option& option) const {
  std::string left = option.short_ != 0 ? std::string("-") + option.short_ + ", --" : "    --";
  // A switch that is on by default is of interest as --no-...
  if (is_switch(option.field_) && option.initial_ == "true") left += "no-";
  left += option.flag_;
  if (!is_switch(option.field_)) {
    const std::string name = option.metavar_.empty() ? type_name(option.field_) : option.metavar_;
    left += option.has_implied_ ? "[=" + name + "]" : " " + name;
  }
  return row(left, option_help(option));
}

std::string Options::help() const {
  std::string text = command_ + ": " + summary_ + "\n\nUsage: " + command_;
  if (positionals_ != nullptr) {
    const std::string name = positional_name_ + (most_ == 1 ? "" : "...");
    text += least_ == 0 ? " [" + name + "]" : " " + name;
  }
  text += " [options]\n";

  std::vector<std::string> groups = {"Input", "Output"};
  for (const Option& option : options_) {
    const bool known = std::find(groups.begin(), groups.end(), option.group_) != groups.end();
    if (!known && option.group_ != "Device and run") groups.push_back(option.group_);
  }
  groups.push_back("Device and run");
  for (const std::string& group : groups) {
    std::string rows;
    if (group == "Input" && positionals_ != nullptr) rows += row(positional_name_, positional_help_);
    for (const Option& option : options_) {
      if (option.group_ == group && !option.flag_.empty()) rows += flag_help(option);
    }
    if (group == "Device and run") {
      rows += row("    --config FILE", "read values from a TOML file; a later file wins");
      rows += row("    --set KEY=VALUE", "set one configuration key; may be repeated");
      rows += row("    --print-config", "print the effective values and where each came from");
      rows += row("    --cite", "print what to cite");
      rows += row("    --version", "print the version");
      rows += row("-h, --help", "print this help");
    }
    if (!rows.empty()) text += "\n" + group + "\n" + rows;
  }

  std::string keys;
  for (const Option& option : options_) {
    if (option.flag_.empty()) keys += row(option.key_, option_help(option));
  }
  if (!keys.empty()) text += "\nConfiguration keys (--config, --set)\n" + keys;
  return text.substr(0, text.size() - 1);
}

std::string Options::effective_config() const {
  std::string text = "# " + command_ + "\n";
  std::map<std::string, std::string> tables;  // the top level, "", sorts first
  for (const Option& option : options_) {
    if (!option.is_key_) continue;
    const std::size_t dot = option.key_.rfind('.');
    const std::string table = dot == std::string::npos ? "" : option.key_.substr(0, dot);
    const std::string name = dot == std::string::npos ? option.key_ : option.key_.substr(dot + 1);
    const std::string value = toml_text(option.field_);
    std::string source = source_text(option.source_, option.origin_);
    std::replace_if(
        source.begin(), source.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
    tables[table] += (value.empty() ? "# " + name + " is not set" : name + " = " + value) + "  # " + source + "\n";
  }
  for (const auto& [table, lines] : tables) text += (table.empty() ? "" : "\n[" + table + "]\n") + lines;
  return text.substr(0, text.size() - 1);
}

std::vector<FlagInfo> Options::flags() const {
  std::vector<FlagInfo> list;
  for (const Option& option : options_) {
    if (option.flag_.empty()) continue;
    const bool on = is_switch(option.field_) && option.initial_ == "true";
    const bool takes_value = !is_switch(option.field_) && !option.has_implied_;
    list.push_back({(on ? "--no-" : "--") + option.flag_, option.help_, takes_value, option.choices_});
  }
  list.push_back({"--config", "read values from a TOML file", true, {}});
  list.push_back({"--set", "set one configuration key", true, {}});
  list.push_back({"--print-config", "print the effective values", false, {}});
  list.push_back({"--cite", "print what to cite", false, {}});
  list.push_back({"--version", "print the version", false, {}});
  list.push_back({"--help", "print this help", false, {}});
  return list;
}

}  // namespace cirrus
