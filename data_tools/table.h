// What `cirrus-data --help` and `--version` say; needs none of the libraries that the verbs need.
#pragma once

#include "base/program.h"

namespace cirrus::data_tools {

/// The program's verbs, without their functions.
Program table();

}  // namespace cirrus::data_tools
