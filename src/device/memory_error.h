// A device that ran out of memory, said so that a user can act on it.
#pragma once

#include <c10/util/Exception.h>

#include "base/errors.h"
#include "device/device.h"

namespace cirrus::device {

/// Whether memory was full, a device's or the host's: LibTorch has a type of error for that, which its CPU allocator
/// and plug-ins of vendors do not use; theirs are known by their words.
bool is_out_of_memory(const std::exception& error);

/// "`what` does not fit into the memory of DEVICE (N GB): the allocator's first line (remedy)", exit code 70.
Error out_of_memory(const std::exception& error, const Device& device, const std::string& what,
                    const std::string& remedy);

}  // namespace cirrus::device
