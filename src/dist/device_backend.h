// The backend behind a group for tensors of a device: the device's own library of collectives, or host memory as a stop
// on the way. For the rest of dist/ only.
#pragma once

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "device/device.h"
#include "dist/process_group.h"
#include "dist/world.h"

namespace cirrus::dist {

/// For a device whose tensors are not in host memory. Where a rank cannot use the library, none does, and why is told
/// once: the device has none, it is missing or too old, CIRRUS_COLLECTIVES=host. All ranks of the world call it in the
/// same order. Throws Error(unavailable) if the library is there and its ranks do not connect.
c10::intrusive_ptr<c10d::Backend> make_device_backend(const World& world, const device::Device& device,
                                                      const Members& members);

/// Whether c10d's operators have kernels for the device. Where they have none, c10d::ProcessGroup's own methods run on
/// a copy in host memory and return data that nobody reduced: a c10d::ProcessGroup given to others must then override
/// them and call its backend itself.
bool dispatches_collectives(const at::Device& device);

}  // namespace cirrus::dist
