// The verbs of cirrus, one file each.
#pragma once

#include "base/options.h"

namespace cirrus::app {

int enhance(const Arguments& arguments);
int train(const Arguments& arguments);
int evaluate(const Arguments& arguments);
int models(const Arguments& arguments);
int devices(const Arguments& arguments);

}  // namespace cirrus::app
