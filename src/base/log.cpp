// Messages and results; see log.h. The only file that includes spdlog.
#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>

#include "base/errors.h"

namespace cirrus::log {
namespace {

using spdlog::level::level_enum;

struct State {
  State() {
    console.set_pattern("%v");
    console.set_level(level_enum::info);
    const char* no_color = std::getenv("NO_COLOR");
    color = isatty(STDERR_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
  }

  std::recursive_mutex mutex;
  spdlog::logger console{"console", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  std::unique_ptr<spdlog::logger> file;
  std::string program = "cirrus";
  std::string status_line;
  std::vector<std::string> warnings;
  std::atomic<bool> speaking{true}, quiet{false}, json{false}, strict{false};
  bool color = false;
};

// Never destroyed: threads may still log while static objects go.
State& state() {
  static State* const instance = new State;
  return *instance;
}

void erase_status_line(const State& s) {
  if (!s.status_line.empty()) std::fputs("\r\033[K", stderr);
}

void draw_status_line(const State& s) {
  if (s.status_line.empty()) return;
  std::fputs(s.status_line.c_str(), stderr);
  std::fflush(stderr);
}

void say(level_enum level, const std::string& message) {
  State& s = state();
  if (!s.speaking && level != level_enum::err) return;
  const std::lock_guard<std::recursive_mutex> lock(s.mutex);
  if (s.file) s.file->log(level, message);
  if (!s.console.should_log(level)) return;
  std::string line = message;
  if (level == level_enum::warn || level == level_enum::err) {
    const bool bad = level == level_enum::err;
    const std::string word = bad ? "error:" : "warning:";
    const std::string shown = s.color ? (bad ? "\033[1;31m" : "\033[1;33m") + word + "\033[0m" : word;
    line = s.program + ": " + shown + " " + message;
  }
  erase_status_line(s);
  s.console.log(level, line);
  draw_status_line(s);
}

void write_stdout(const std::string& text) {
  State& s = state();
  const std::lock_guard<std::recursive_mutex> lock(s.mutex);
  erase_status_line(s);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
  draw_status_line(s);
}

}  // namespace

void configure(const Settings& settings) {
  State& s = state();
  const std::lock_guard<std::recursive_mutex> lock(s.mutex);
  s.quiet = settings.quiet;
  s.json = settings.json;
  s.strict = settings.strict;
  s.console.set_level(settings.quiet ? level_enum::warn : settings.verbose ? level_enum::debug : level_enum::info);
  s.file.reset();
  if (settings.file.empty()) return;
  // spdlog would make missing folders, which a misspelt path is no reason for.
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(settings.file).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    throw Error(ExitCode::cannot_create, "cannot write the log file " + settings.file + ": there is no such folder",
                "create it first, or give --log another path");
  try {
    s.file =
        std::make_unique<spdlog::logger>("file", std::make_shared<spdlog::sinks::basic_file_sink_mt>(settings.file));
  } catch (const spdlog::spdlog_ex& failure) {
    throw Error(ExitCode::cannot_create, "cannot write the log file " + settings.file + ": " + failure.what(),
                "give --log another path");
  }
  s.file->set_pattern("%Y-%m-%dT%H:%M:%SZ %l %v", spdlog::pattern_time_type::utc);
  s.file->set_level(level_enum::debug);
  s.file->flush_on(level_enum::debug);
}

void debug(const std::string& message) { say(level_enum::debug, message); }
void info(const std::string& message) { say(level_enum::info, message); }
void error(const std::string& message) { say(level_enum::err, message); }

void warning(const std::string& message) {
  State& s = state();
  if (s.strict) throw Error(ExitCode::bad_data, message, "--strict makes warnings errors");
  {
    const std::lock_guard<std::recursive_mutex> lock(s.mutex);
    if (std::find(s.warnings.begin(), s.warnings.end(), message) == s.warnings.end()) s.warnings.push_back(message);
  }
  say(level_enum::warn, message);
}

void print(const std::string& text) {
  if (state().file) state().file->info(text);
  if (state().speaking && !state().json) write_stdout(text);
}

void print_json(const std::string& object) {
  if (state().speaking) write_stdout(object);
}

std::vector<std::string> warnings() {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().warnings;
}

void set_program(const std::string& name) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().program = name;
}

void set_speaking(bool speaks) { state().speaking = speaks; }
bool speaking() { return state().speaking; }
bool quiet() { return state().quiet; }
bool json() { return state().json; }

void set_status_line(const std::string& line) {
  State& s = state();
  const std::lock_guard<std::recursive_mutex> lock(s.mutex);
  erase_status_line(s);
  s.status_line = line;
  draw_status_line(s);
  std::fflush(stderr);
}

}  // namespace cirrus::log
