// Every device of this machine: those that can be opened, and why the others cannot.
#pragma once

#include <functional>
#include <string>

#include "device/device.h"

namespace cirrus::device {

using Visit = std::function<void(const std::string& id, Device* device, const std::string& reason)>;

/// Calls `visit(id, device, reason)` for each device in turn, opened (reason is empty), and for each that is missing or
/// does not open, e.g. because it is in use (device is null). The CPU comes last: LibTorch asks once in a process, at
/// the first backward pass, which devices there are. `id`: as --device spells it ("cuda:1"; "cpu", and a kind without
/// any device, have no number).
void visit_devices(const Visit& visit);

}  // namespace cirrus::device
