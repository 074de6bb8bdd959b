// The outside of a program: a table of verbs, what is common to them (--help, --version, --cite, help VERB, completion
// SHELL), and the one place where exceptions become messages and exit codes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/options.h"

namespace cirrus {

struct Verb {
  std::string name;
  std::string summary;  ///< one line
  std::function<int(const Arguments&)> run;
};

struct Program {
  std::string name;
  std::string summary;
  std::vector<Verb> verbs;
  std::string citation;  ///< BibTeX of the methods, printed by --cite after Cirrus itself
};

/// What becomes of an error in a run of several processes.
struct FailureReport {
  bool report = true;    ///< whether this process says it
  std::string prefix{};  ///< in front of the message: which process this is
  int code = 0;          ///< to exit with
};
/// Asks `hook` about an error before it is reported: other processes of the run may have to be told, and all that fail
/// in the same way need say it once.
void set_failure_hook(FailureReport (*hook)(int code, const std::string& message));

/// Runs a program and returns its exit code. Catches everything: Error gives its code, std::bad_alloc and other
/// exceptions 70; the message goes to stderr as "cirrus enhance: error: ...", and with --json also to stdout as
/// {"error": {code, message}}.
int run_program(const Program& program, int argc, const char* const* argv);

/// The same for a table without functions: they come by the verbs' names.
int run_program(Program table, const std::map<std::string, int (*)(const Arguments&)>& functions, int argc,
                const char* const* argv);

}  // namespace cirrus
