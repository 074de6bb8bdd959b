// Completion scripts for bash, zsh and fish, made from the verbs and their registered flags.
#pragma once

#include <string>

#include "base/program.h"

namespace cirrus {

/// The script for `shell`. Throws Error(usage) for another shell than bash, zsh, fish.
std::string completion_script(const Program& program, const std::string& shell);

}  // namespace cirrus
