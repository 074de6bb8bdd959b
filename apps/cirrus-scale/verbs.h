// The verbs of cirrus-scale, one file each.
#pragma once

#include "base/options.h"

namespace cirrus::scale_app {

int doctor(const Arguments& arguments);
int plan(const Arguments& arguments);

}  // namespace cirrus::scale_app
