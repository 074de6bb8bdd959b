// The contract and the networks' operations on the CPU, and on the device that CIRRUS_TEST_DEVICE names (cuda, hpu).
#include "tests/device/operations.h"

#include "tests/device/contract.h"
#include "tests/device/tested_devices.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

}  // namespace

BOOST_AUTO_TEST_SUITE(operations)

BOOST_AUTO_TEST_CASE(every_device_keeps_the_contract) {
  for (device::Device* d : tested_devices()) check_contract(*d);
}

BOOST_AUTO_TEST_CASE(operations_and_their_gradients_are_those_of_double_precision) {
  for (device::Device* d : tested_devices())
    for (const at::ScalarType type : d->capabilities().dtypes)
      if (c10::elementSize(type) > 1) check_operations(*d, type);
}

BOOST_AUTO_TEST_CASE(lists_copies_and_accumulated_gradients_are_right) {
  for (device::Device* d : tested_devices()) {
    check_lists(*d);
    check_copies(*d);
    check_accumulation(*d);
  }
}

BOOST_AUTO_TEST_SUITE_END()
