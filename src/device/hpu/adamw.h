// AdamW by the plug-in's fused operator, called by its schema through the dispatcher: it differs between releases and
// between lazy and eager builds.
#pragma once

#include "device/device.h"

namespace cirrus::device::hpu {

/// @return false, and nothing done, if the plug-in has no such operator or one with arguments unknown here. Its epsilon
/// stands beside sqrt(v) before the bias correction, not after: smaller by sqrt(1 - beta2^t) than in the paper.
bool fused_adamw(const AdamWUpdate& update);

}  // namespace cirrus::device::hpu
