// The CPU backend, compiled in.
#pragma once

#include "device/device.h"

namespace cirrus::device {
Backend* cpu_backend();
}
