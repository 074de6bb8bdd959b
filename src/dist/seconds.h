// Lengths of time that users set in the environment.
#pragma once

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/errors.h"

namespace cirrus::dist {

/// Seconds in an environment variable, or `otherwise` where it is unset or empty. Throws Error(config) unless it is a
/// positive number of at most `largest`.
inline double seconds_from(const char* name, int otherwise, double largest = std::numeric_limits<double>::max()) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(value, &end);
  if (*end != 0 || !(seconds > 0) || !(seconds <= largest))
    throw Error(ExitCode::config, std::string(name) + " = '" + value + "' is not a number of seconds",
                "unset it for " + std::to_string(otherwise));
  return seconds;
}

}  // namespace cirrus::dist
