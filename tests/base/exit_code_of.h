// The exit code that an action would end a program with.
#pragma once

#include <ostream>
#include <string>

#include "base/errors.h"

namespace cirrus {
inline std::ostream& operator<<(std::ostream& out, ExitCode code) { return out << static_cast<int>(code); }
}  // namespace cirrus

namespace cirrus::test {

/// Of the Error that `action` throws, or ok; what it says goes to `message`.
template <class Action>
ExitCode exit_code_of(Action action, std::string* message = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  return ExitCode::ok;
}

}  // namespace cirrus::test
