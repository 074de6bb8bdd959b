// A device that ran out of memory, said so that a user can act on it.
#pragma once

#include <c10/util/Exception.h>

#include "base/errors.h"
#include "device/device.h"

namespace cirrus::device {

/// Whether a device's memory was full: LibTorch has a type of error for that, which plug-ins of vendors do not all use;
/// theirs are known by their words.
bool is_out_of_memory(const c10::Error& error);

/// "`what` does not fit into the memory of DEVICE (N GB): the allocator's first sentence (remedy)", exit code 70.
Error out_of_memory(const c10::Error& error, const Device& device, const std::string& what, const std::string& remedy);

}  // namespace cirrus::device
