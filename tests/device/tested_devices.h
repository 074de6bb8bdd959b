// The devices that the contract suites run on: the CPU, and the one that CIRRUS_TEST_DEVICE names (cuda, hpu).
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "device/device.h"

namespace cirrus::test {

/// Opened once a process, and to be asked for before any other work: LibTorch looks once which devices there are.
inline std::vector<device::Device*> tested_devices() {
  static const auto devices = [] {
    std::vector<std::unique_ptr<device::Device>> list;
    const char* name = std::getenv("CIRRUS_TEST_DEVICE");
    if (name != nullptr && *name != '\0') list.push_back(device::open_device(name));
    list.push_back(device::open_device("cpu"));
    return list;
  }();
  std::vector<device::Device*> out;
  for (const auto& d : devices) out.push_back(d.get());
  return out;
}

}  // namespace cirrus::test
