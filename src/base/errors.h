// Errors and exit codes of every Cirrus program: an exception carries the sysexits code, what was found and where, and
// a remedy.
#pragma once

#include <stdexcept>
#include <string>

namespace cirrus {

/// Exit codes (sysexits.h where it has one). The whole list is part of the user interface.
enum class ExitCode : int {
  ok = 0,
  requirement = 1,     ///< a requirement is not met (evaluate --require, compare, check)
  usage = 64,          ///< wrong command line
  bad_data = 65,       ///< not FITS, no image, all NaN, image too small, cube without a plane
  no_input = 66,       ///< input missing
  unavailable = 69,    ///< device, launcher or process group not available
  internal = 70,       ///< bug, out of memory, watchdog
  cannot_create = 73,  ///< output cannot be made, exists, or is the input
  io = 74,             ///< read or write error, disk full
  stopped = 75,        ///< stopped early with a checkpoint: resume
  config = 78,         ///< configuration file or key
  interrupted = 130,   ///< SIGINT without a checkpoint
};

/// An error a user can act on. `what()` is "message" or "message (remedy)".
class Error : public std::runtime_error {
public:
  Error(ExitCode code, const std::string& message, const std::string& remedy = "")
      : std::runtime_error(remedy.empty() ? message : message + " (" + remedy + ")"), code_(code) {}
  ExitCode code() const noexcept { return code_; }

private:
  ExitCode code_;
};

/// Runs `work`; an error about data that does not name `file` gets it in front.
template <class Work>
auto with_file_name(const std::string& file, Work&& work) {
  try {
    return work();
  } catch (const Error& e) {
    if (e.code() != ExitCode::bad_data || std::string(e.what()).find(file) != std::string::npos) throw;
    throw Error(e.code(), file + ": " + e.what());
  }
}

}  // namespace cirrus
