// Between text or TOML and the typed fields of an options struct: assignment with complaints, printing as TOML, limits.
// Inner header of base/options; nobody else needs it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"

namespace cirrus {

/// A key of a configuration file with its place.
struct ConfigEntry {
  std::string key;  ///< dotted
  RawValue value;
  std::size_t line = 0;
};

/// All keys of a TOML file, in order of lines. Throws Error(no_input), or Error(config) naming file and line for broken
/// TOML.
std::vector<ConfigEntry> read_config(const std::string& path);
/// The value of "key = VALUE" in TOML, or nothing if VALUE is not TOML.
std::optional<RawValue> toml_value(const std::string& text);

/// Assigns; returns "" or what is wrong with the value ("not a whole number"), leaving the field as it was.
std::string assign(const Field& field, const RawValue& value, bool append);

bool is_switch(const Field& field);
bool is_list(const Field& field);
/// What the help calls a value of this type: N, X, TEXT, N,N,...
std::string type_name(const Field& field);
/// The value as TOML; "" for an unset optional.
std::string toml_text(const Field& field);
/// The value for people; "" for unset or empty.
std::string plain_text(const Field& field);

/// All numbers (strings) of a field: one, the elements of a list, or none.
std::vector<double> numbers_of(const Field& field);
std::vector<std::string> strings_of(const Field& field);

/// A number as short as reads back exactly.
std::string shortest(double number);
/// The elements of "a,b,c".
std::vector<std::string> split_commas(const std::string& text);

}  // namespace cirrus
