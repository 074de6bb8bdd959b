// The self-test of a device: whether it computes what the CPU computes, how fast, and how much memory it holds. One
// report that the owner of a machine can send to whoever asks why it misbehaves.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "device/device.h"

namespace cirrus::scale {

/// Tests a device in about a minute at most: matrix product and convolution in each of its types against float64 on the
/// CPU, a training step of both networks against float64, recording of a step, memory. Returns {device, name, memory,
/// dtypes, versions, passed, checks[{name, passed, seconds, ...figures}]}; a check that throws has failed, with what it
/// said. `kind_index`: as --device spells it. `dtype`: as --dtype
/// spells it; unless "auto", products are tested in it alone. Throws Error(unavailable) for one the device lacks.
nlohmann::json examine(device::Device& device, const std::string& kind_index, const std::string& dtype = "auto");

/// The machine around it: program version, operating system, processor, environment variables that steer devices.
nlohmann::json describe_host();

}  // namespace cirrus::scale
