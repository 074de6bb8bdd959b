// One registry of everything a verb can be told: typed fields of a plain struct, each bound to a key, a flag and a help
// group. Defaults live in the struct alone. Values come, in rising precedence, from the default, --config FILE.toml,
// the environment (CIRRUS_<KEY>), --set key=value, and the flag; each remembers where it came from. Help, completion
// and --print-config are made from the registry.
//
//   EnhanceOptions o;  RunOptions run;
//   Options options("cirrus enhance", "Sharpen a map.");
//   options.positionals("IN.fits", o.inputs, "maps", 1);
//   options.group("Super-resolution");
//   options.add("sigma_max", o.sigma_max, "highest noise level").range(0.1, 200);   // key sigma_max, flag --sigma-max
//   options.add("network.widths", o.widths, "channels by level");                   // dotted: configuration only
//   add_run_options(options, run);
//   if (!options.parse(arguments)) return 0;                                         // --help or --print-config was
//   answered
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cirrus {

enum class Source { by_default, file, environment, set, flag };

/// The fields an option can be bound to. An unset std::optional has no value until somebody gives one.
using Field = std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<double>*,
                           std::vector<std::int64_t>*, std::vector<std::string>*, std::optional<bool>*,
                           std::optional<std::int64_t>*, std::optional<double>*, std::optional<std::string>*>;

/// A value as it was found: on the command line everything is text; a configuration file knows its types.
struct RawValue {
  enum class Kind { text, boolean, integer, real, string, array, other };
  Kind kind = Kind::text;
  std::vector<std::string> items;  ///< one, or the elements of an array
  std::string shown;               ///< for messages
};

/// One option, refined by chained calls right after Options::add().
class Option {
public:
  /// The flag's name without dashes, for keys with a dot or flags that differ from the key; "" = no flag.
  Option& flag(const std::string& name);
  Option& short_flag(char letter);
  /// How the value is called in the help: FILE, N, FWHM.
  Option& metavar(const std::string& name);
  /// The only values allowed (strings, or each element of a list of strings).
  Option& one_of(std::vector<std::string> choices);
  /// Inclusive limits of a number (or of each element).
  Option& range(double low, double high = std::numeric_limits<double>::infinity());
  /// A further check, run whenever the value was given: returns "" or what is wrong with it ("is not an angle").
  Option& check(std::function<std::string()> complaint);
  /// The flag may stand alone and then means this value; another one is given as --flag=VALUE.
  Option& implied(const std::string& value);
  /// A list of exactly n elements, whose flag takes as many words: --pair LR HR.
  Option& words(std::size_t n);
  /// A list of two numbers, the smaller one first.
  Option& interval();
  /// A list of strings whose flag is repeated, one element each: commas are kept.
  Option& whole();
  /// Not a configuration key: flag only.
  Option& flag_only();
  Option& required();
  /// Replaces the default shown in the help, for values that are decided at run time: "half a tile".
  Option& default_text(const std::string& text);

private:
  friend class Options;

  std::string key_, flag_, group_, help_, metavar_, implied_, default_text_, initial_;
  char short_ = 0;
  Field field_;
  std::vector<std::string> choices_;
  double low_ = -std::numeric_limits<double>::infinity(), high_ = std::numeric_limits<double>::infinity();
  std::function<std::string()> check_;
  std::size_t words_ = 0;
  bool interval_ = false, has_implied_ = false, whole_ = false, is_key_ = true, required_ = false;
  Source source_ = Source::by_default;
  std::string origin_;  ///< file and line, variable, or flag as typed
  std::string shown_;   ///< the value as given, for messages
};

/// A flag as completion scripts need it.
struct FlagInfo {
  std::string flag;  ///< with dashes
  std::string help;
  bool takes_value = false;
  std::vector<std::string> choices;
};

/// What run_program() hands a verb: the words after the verb; with `describe` set the verb's parse() only lists its
/// flags there.
struct Arguments {
  std::vector<std::string> words;
  std::vector<FlagInfo>* describe = nullptr;
};

class Options {
public:
  /// `command` as typed ("cirrus enhance"), `summary` one or two sentences.
  Options(std::string command, std::string summary);

  /// Later options belong to this help group. Input and Output come first in the help, "Device and run" last.
  void group(const std::string& name);
  /// Binds a field. The key is dotted snake_case; a key without a dot also has the flag --key-with-dashes (bool: and
  /// --no-...). Lists are given as a,b,c or by repeating the flag. The reference stays valid.
  Option& add(const std::string& key, Field field, const std::string& help);
  template <class T>
  Option& add(const std::string& key, T& field, const std::string& help) {
    return add(key, Field(&field), help);
  }
  /// The words that are no flags, at least `least` and at most `most` (0 = any number); @list.txt is expanded.
  void positionals(const std::string& metavar, std::vector<std::string>& field, const std::string& help,
                   std::size_t least, std::size_t most = 0);
  /// Runs after all values are in and checked, before parse() returns true.
  void when_parsed(std::function<void()> action);

  /// Reads everything into the fields. False: --help, --print-config or a description was answered and the verb ends
  /// with 0. Throws Error(usage) for the command line, Error(config) for files, environment and --set; both name the
  /// nearest known name.
  bool parse(const Arguments& arguments);

  /// Where the value of a key came from. Throws Error(internal) for an unknown key.
  Source source(const std::string& key) const;
  bool given(const std::string& key) const { return source(key) != Source::by_default; }
  /// The effective values as TOML, each with its source as a trailing comment: what --print-config prints. Reads back
  /// by --config.
  std::string effective_config() const;
  std::string help() const;
  std::vector<FlagInfo> flags() const;

private:
  /// A flag on the command line, kept until files and environment are read: flags win.
  struct GivenFlag {
    Option* option;
    RawValue value;
    std::string typed;
  };

  Option* find_key(const std::string& key);
  Option* find_flag(const std::string& name, bool& negated);
  Option* find_short(char letter);
  void take_words(const std::vector<std::string>& words);
  void read_file(const std::string& path);
  void read_environment();
  void read_set(const std::string& assignment);
  void take_flags();
  void take_positionals();
  void check_all() const;
  void apply(Option& option, const RawValue& value, Source source, const std::string& origin, bool append = false);
  std::string option_help(const Option& option) const;
  std::string flag_help(const Option& option) const;
  RawValue from_text(const Option& option, const std::string& text) const;
  std::string complaint(const Option& option) const;
  [[noreturn]] void throw_unknown_flag(const std::string& typed) const;
  [[noreturn]] void throw_unknown_key(const std::string& key, const std::string& origin) const;
  [[noreturn]] void throw_bad_value(const Option& option, Source source, const std::string& origin,
                                    const std::string& shown, const std::string& wrong) const;

  std::string command_, summary_, group_ = "Options";
  std::deque<Option> options_;
  std::string positional_name_, positional_help_;
  std::vector<std::string>* positionals_ = nullptr;
  std::size_t least_ = 0, most_ = 0;
  std::vector<std::function<void()>> when_parsed_;
  std::vector<GivenFlag> given_;
  std::vector<std::string> positional_words_, config_files_, assignments_;
  bool wants_help_ = false, wants_config_ = false;
};

}  // namespace cirrus
