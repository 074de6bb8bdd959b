// What a program says while it works: messages to stderr and to a log file, results to stdout. Only the speaking rank
// is heard; the list of warnings is kept for --json. spdlog stays inside log.cpp.
#pragma once

#include <string>
#include <vector>

namespace cirrus::log {

struct Settings {
  bool quiet = false;    ///< warnings and errors only, no progress
  bool verbose = false;  ///< debug messages too
  bool json = false;     ///< stdout is kept for one JSON object: print() is silent
  bool strict = false;   ///< a warning is thrown as Error(bad_data)
  std::string file{};    ///< also write everything, with UTC time and level, to this file ("" = none); appended to
};

/// Applies the settings to all later messages. Throws Error(cannot_create) if the log file cannot be opened.
void configure(const Settings& settings);

/// Messages on stderr. Colour only on a terminal without NO_COLOR, never in the file. Safe from any thread.
void debug(const std::string& message);
void info(const std::string& message);
/// Also kept for warnings(), on every rank. Under --strict throws Error(bad_data) instead: do not call from
/// destructors.
void warning(const std::string& message);
/// Printed by every rank: a rank that dies alone must say why.
void error(const std::string& message);

/// A result on stdout, with a newline; silent under --json and on ranks that do not speak.
void print(const std::string& text);
/// The one JSON object of --json, on stdout (silent on ranks that do not speak).
void print_json(const std::string& object);

/// The warnings issued so far, in order, without repeats.
std::vector<std::string> warnings();

/// Whether this process speaks (rank 0 does). Until set: true, or what the launcher's rank variable says in
/// run_program().
void set_speaking(bool speaking);
bool speaking();
/// The name in front of warnings and errors: "cirrus enhance".
void set_program(const std::string& name);
/// Whether --quiet or --json was set.
bool quiet();
bool json();

/// A line kept below the messages of a terminal (a progress bar); "" removes it. Used by Progress.
void set_status_line(const std::string& line);

}  // namespace cirrus::log
