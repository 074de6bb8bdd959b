// The registry and the order in which values are taken; see options.h. Help and --print-config: options_help.cpp.
#include "base/options.h"

#include <algorithm>
#include <cstdlib>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/option_value.h"

namespace cirrus {
namespace {

using Kind = RawValue::Kind;

std::string with_dashes(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

std::string join(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string environment_name(const std::string& key) {
  std::string name = "CIRRUS_";
  for (const char c : key) name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string did_you_mean(const std::string& nearest) { return nearest.empty() ? "" : "did you mean " + nearest + "?"; }

bool is_number(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         (std::isdigit(static_cast<unsigned char>(word[1])) != 0 || word[1] == '.');
}

}  // namespace

Option& Option::flag(const std::string& name) { return flag_ = name, *this; }
Option& Option::short_flag(char letter) { return short_ = letter, *this; }
Option& Option::metavar(const std::string& name) { return metavar_ = name, *this; }
Option& Option::one_of(std::vector<std::string> choices) { return choices_ = std::move(choices), *this; }
Option& Option::range(double low, double high) { return low_ = low, high_ = high, *this; }
Option& Option::check(std::function<std::string()> complaint) { return check_ = std::move(complaint), *this; }
Option& Option::implied(const std::string& value) { return implied_ = value, has_implied_ = true, *this; }
Option& Option::words(std::size_t n) { return words_ = n, *this; }

Option& Option::interval() { return words_ = 2, interval_ = true, *this; }
Option& Option::whole() { return whole_ = true, *this; }
Option& Option::flag_only() { return is_key_ = false, *this; }
Option& Option::required() { return required_ = true, *this; }
Option& Option::default_text(const std::string& text) { return default_text_ = text, *this; }

Options::Options(std::string command, std::string summary)
    : command_(std::move(command)), summary_(std::move(summary)) {}

void Options::group(const std::string& name) { group_ = name; }

Option& Options::add(const std::string& key, Field field, const std::string& help) {
  if (find_key(key) != nullptr) throw Error(ExitCode::internal, "option " + key + " is registered twice");
  Option& option = options_.emplace_back();
  option.key_ = key;
  option.field_ = field;
  option.help_ = help;
  option.group_ = group_;
  option.initial_ = plain_text(field);
  if (key.find('.') == std::string::npos) option.flag_ = with_dashes(key);
  return option;
}

void Options::positionals(const std::string& metavar, std::vector<std::string>& field, const std::string& help,
                          std::size_t least, std::size_t most) {
  positional_name_ = metavar;
  positional_help_ = help;
  positionals_ = &field;
  least_ = least;
  most_ = most;
}

void Options::when_parsed(std::function<void()> action) { when_parsed_.push_back(std::move(action)); }

Option* Options::find_key(const std::string& key) {
  for (Option& option : options_) {
    if (option.key_ == key) return &option;
  }
  return nullptr;
}

Option* Options::find_flag(const std::string& name, bool& negated) {
  for (Option& option : options_) {
    if (option.flag_.empty()) continue;
    negated = is_switch(option.field_) && name == "no-" + option.flag_;
    if (name == option.flag_ || negated) return &option;
  }
  return nullptr;
}

void Options::take_words(const std::vector<std::string>& words) {
  const auto needs_value = [](const std::string& typed) {
    throw Error(ExitCode::usage, typed + " needs a value", "see --help");
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      positional_words_.insert(positional_words_.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                               words.end());
      return;
    }
    if (word.size() < 2 || word[0] != '-' || (is_number(word) && find_short(word[1]) == nullptr)) {
      positional_words_.push_back(word);
      continue;
    }
    if (word == "--help" || word == "-h" || word == "--print-config") {
      (word == "--print-config" ? wants_config_ : wants_help_) = true;
      continue;
    }
    std::string typed = word, value;
    bool has_value = false, negated = false;
    Option* option = nullptr;
    if (word[1] == '-') {
      const std::size_t equals = word.find('=');
      has_value = equals != std::string::npos;
      typed = word.substr(0, equals);
      if (has_value) value = word.substr(equals + 1);
      option = find_flag(typed.substr(2), negated);
    } else {
      typed = word.substr(0, 2);
      option = find_short(word[1]);
      has_value = word.size() > 2;
      value = word.substr(2);
    }
    // A value that looks like a flag is a forgotten value; --flag=VALUE still gives it.
    const auto next = [&]() -> const std::string& {
      if (i + 1 >= words.size() || (words[i + 1].starts_with("--") && words[i + 1].size() > 2)) needs_value(typed);
      return words[++i];
    };
    if (typed == "--config" || typed == "--set") {
      if (!has_value) value = next();
      has_value = true;
      // A verb may have a --set of its own (a folder): an assignment is told by its equals sign.
      const bool assignment = typed == "--set" && (option == nullptr || value.find('=') != std::string::npos);
      if (assignment || typed == "--config") {
        (assignment ? assignments_ : config_files_).push_back(value);
        continue;
      }
    }
    if (option == nullptr) throw_unknown_flag(typed);
    GivenFlag given{option, {Kind::text, {}, {}}, typed};
    if (is_switch(option->field_) && (!has_value || word[1] != '-')) {
      given.value.items = {negated ? "false" : "true"};
      if (has_value) {  // -qv: two switches in one word
        given_.push_back(given);
        std::vector<std::string> rest = {"-" + value};
        take_words(rest);
        continue;
      }
    } else if (negated) {
      throw Error(ExitCode::usage, typed + " takes no value");
    } else if (option->words_ > 0) {
      if (has_value) throw Error(ExitCode::usage, typed + " takes " + std::to_string(option->words_) + " words");
      for (std::size_t n = 0; n < option->words_; ++n) given.value.items.push_back(next());
    } else {
      if (!has_value) value = option->has_implied_ ? option->implied_ : next();
      given.value.items =
          is_list(option->field_) && !option->whole_ ? split_commas(value) : std::vector<std::string>{value};
    }
    given.value.shown = is_switch(option->field_) && !has_value ? "" : join(given.value.items, ",");
    given_.push_back(std::move(given));
  }
}

Option* Options::find_short(char letter) {
  for (Option& option : options_) {
    if (option.short_ == letter) return &option;
  }
  return nullptr;
}

void Options::throw_unknown_flag(const std::string& typed) const {
  std::vector<std::string> known;
  for (const FlagInfo& flag : flags()) known.push_back(flag.flag);
  throw Error(ExitCode::usage, "unknown flag " + typed, did_you_mean(nearest_name(typed, known)));
}

void Options::apply(Option& option, const RawValue& value, Source source, const std::string& origin, bool append) {
  std::string wrong = assign(option.field_, value, append);
  if (wrong.empty()) {
    option.source_ = source;
    option.origin_ = origin;
    option.shown_ = value.shown;
    wrong = complaint(option);
  }
  if (!wrong.empty()) throw_bad_value(option, source, origin, value.shown, wrong);
}

void Options::throw_bad_value(const Option& option, Source source, const std::string& origin, const std::string& shown,
                              const std::string& wrong) const {
  if (source == Source::flag) throw Error(ExitCode::usage, origin + (shown.empty() ? "" : " " + shown) + ": " + wrong);
  throw Error(ExitCode::config, origin + ": " + option.key_ + " = " + shown + ": " + wrong);
}

std::string Options::complaint(const Option& option) const {
  const std::vector<double> numbers = numbers_of(option.field_);
  const std::size_t count = std::max(numbers.size(), strings_of(option.field_).size());
  if (option.words_ > 0 && is_list(option.field_) && count != option.words_)
    return "needs " + std::to_string(option.words_) + " values, not " + std::to_string(count);
  if (option.interval_ && numbers[0] > numbers[1]) return "the smaller of the two comes first";
  for (const double number : numbers) {
    if (number >= option.low_ && number <= option.high_) continue;
    const std::string low = shortest(option.low_), high = shortest(option.high_);
    if (option.high_ == std::numeric_limits<double>::infinity()) return "below " + low + ", the least allowed";
    return "not between " + low + " and " + high;
  }
  if (option.choices_.empty()) return "";
  std::vector<std::string> chosen = strings_of(option.field_);
  if (chosen.empty() && !is_list(option.field_)) chosen = {plain_text(option.field_)};
  for (const std::string& choice : chosen) {
    if (std::find(option.choices_.begin(), option.choices_.end(), choice) != option.choices_.end()) continue;
    return "not one of " + join(option.choices_, ", ") + " (" + did_you_mean(nearest_name(choice, option.choices_)) +
           ")";
  }
  return "";
}

void Options::throw_unknown_key(const std::string& key, const std::string& origin) const {
  std::vector<std::string> known;
  for (const Option& option : options_) {
    if (option.is_key_) known.push_back(option.key_);
  }
  throw Error(ExitCode::config, origin + ": unknown key " + key, did_you_mean(nearest_name(key, known)));
}

void Options::read_file(const std::string& path) {
  for (const ConfigEntry& entry : read_config(path)) {
    const std::string origin = path + ", line " + std::to_string(entry.line);
    Option* option = find_key(entry.key);
    if (option == nullptr || !option->is_key_) throw_unknown_key(entry.key, origin);
    apply(*option, entry.value, Source::file, origin);
  }
}

RawValue Options::from_text(const Option& option, const std::string& text) const {
  if (text.starts_with('[') || text.starts_with('"')) {
    if (std::optional<RawValue> value = toml_value(text)) return *value;
  }
  if (!is_list(option.field_)) return {Kind::text, {text}, text};
  return {Kind::text, option.whole_ ? std::vector<std::string>{text} : split_commas(text), text};
}

void Options::read_environment() {
  for (Option& option : options_) {
    if (!option.is_key_) continue;
    const std::string name = environment_name(option.key_);
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') continue;
    apply(option, from_text(option, value), Source::environment, "environment variable " + name);
  }
}

void Options::read_set(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(ExitCode::usage, "--set " + assignment + " is not of the form key=value");
  }
  const auto trimmed = [](const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t");
    return first == std::string::npos ? std::string() : text.substr(first, text.find_last_not_of(" \t") - first + 1);
  };
  const std::string key = trimmed(assignment.substr(0, equals));
  Option* option = find_key(key);
  if (option == nullptr || !option->is_key_) throw_unknown_key(key, "--set");
  apply(*option, from_text(*option, trimmed(assignment.substr(equals + 1))), Source::set, "--set");
}

void Options::take_flags() {
  std::vector<const Option*> seen;
  for (const GivenFlag& given : given_) {
    // The first use replaces what file or environment said; a list grows with each further one.
    const bool again = std::find(seen.begin(), seen.end(), given.option) != seen.end();
    seen.push_back(given.option);
    apply(*given.option, given.value, Source::flag, given.typed, again);
  }
}

void Options::check_all() const {
  for (const Option& option : options_) {
    if (option.source_ == Source::by_default) {
      if (!option.required_) continue;
      const std::string how = option.flag_.empty() ? "key " + option.key_ : "--" + option.flag_;
      throw Error(ExitCode::usage, command_ + " needs " + how + ": " + option.help_);
    }
    const std::string wrong = option.check_ ? option.check_() : "";
    if (!wrong.empty()) throw_bad_value(option, option.source_, option.origin_, option.shown_, wrong);
  }
  const std::size_t count = positional_words_.size();
  if (count < least_) {
    const std::string wanted = least_ == 1 ? positional_name_ : std::to_string(least_) + " x " + positional_name_;
    throw Error(ExitCode::usage, command_ + " needs " + wanted + ": " + positional_help_,
                "see " + command_ + " --help");
  }
}

void Options::take_positionals() {
  const std::size_t allowed = positionals_ == nullptr ? 0 : most_;
  const bool any_number = positionals_ != nullptr && most_ == 0;
  positional_words_ = positionals_ == nullptr ? positional_words_ : expand_lists(positional_words_);
  if (!any_number && positional_words_.size() > allowed) {
    throw Error(ExitCode::usage, command_ + " cannot use \"" + positional_words_[allowed] + "\"",
                allowed == 0 ? "it takes flags only"
                             : "it takes at most " + std::to_string(allowed) + " of " + positional_name_);
  }
  if (positionals_ != nullptr && !positional_words_.empty()) *positionals_ = positional_words_;
}

bool Options::parse(const Arguments& arguments) {
  if (arguments.describe != nullptr) {
    *arguments.describe = flags();
    return false;
  }
  log::set_program(command_);
  take_words(arguments.words);
  if (wants_help_) {
    log::print(help());
    return false;
  }
  for (const std::string& file : config_files_) read_file(file);
  read_environment();
  for (const std::string& assignment : assignments_) read_set(assignment);
  take_flags();
  take_positionals();
  if (wants_config_) {
    log::print(effective_config());
    return false;
  }
  check_all();
  for (const auto& action : when_parsed_) action();
  return true;
}

Source Options::source(const std::string& key) const {
  for (const Option& option : options_) {
    if (option.key_ == key) return option.source_;
  }
  throw Error(ExitCode::internal, "no option has the key " + key);
}

}  // namespace cirrus
