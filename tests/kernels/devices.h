// Where the kernels' tests run: on the CPU, and on the device that the environment variable CIRRUS_TEST_DEVICE names
// (cpu, cuda, hpu), each with the dtypes its kernels take.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace cirrus::test {

struct Place {
  std::string name;
  at::Device device;
  std::vector<at::ScalarType> types;  ///< float32 first
};

/// Opened once; the device named must be there.
inline const std::vector<Place>& places() {
  static std::unique_ptr<device::Device> opened;
  static const std::vector<Place> all = [] {
    std::vector<Place> list{{"cpu", at::kCPU, {at::kFloat, at::kBFloat16}}};
    const char* name = std::getenv("CIRRUS_TEST_DEVICE");
    if (name == nullptr || std::string(name).empty() || std::string(name) == "cpu") return list;
    opened = device::open_device(name);
    // Devices without kernels run compositions of ATen operators, which round at every step in the shorter dtypes.
    std::vector<at::ScalarType> types{at::kFloat};
    if (std::string(name).starts_with("cuda")) types.insert(types.end(), {at::kBFloat16, at::kHalf});
    list.push_back({name, opened->torch_device(), types});
    BOOST_TEST_MESSAGE("kernels are also tested on " << opened->name());
    return list;
  }();
  return all;
}

/// Opens them before any test: LibTorch asks once in a process which devices there are, at its first convolution.
struct OpenPlaces {
  OpenPlaces() { places(); }
};
BOOST_TEST_GLOBAL_FIXTURE(OpenPlaces);

/// Largest relative error of one rounding to a dtype, and a little; of float32 a handful of roundings.
inline double rounding(at::ScalarType type) {
  return type == at::kBFloat16 ? 0.0040 : type == at::kHalf ? 0.00050 : type == at::kFloat ? 2e-6 : 1e-14;
}

}  // namespace cirrus::test
