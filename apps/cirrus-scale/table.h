// What `cirrus-scale --help`, `--version` and `--cite` say; needs none of the libraries that the verbs need.
#pragma once

#include "base/program.h"

namespace cirrus::scale_app {

/// The program's verbs, without their functions.
Program table();

}  // namespace cirrus::scale_app
