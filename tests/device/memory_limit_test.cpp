// The limit of the CPU's tensors, where it comes after memory that was taken before.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <boost/test/unit_test.hpp>

#include "device/device.h"

BOOST_AUTO_TEST_SUITE(memory_limit)

BOOST_AUTO_TEST_CASE(buffers_from_before_the_limit_may_be_freed_after_it) {
  void* buffer = c10::GetCPUAllocator()->raw_allocate(64 << 20);  // as oneDNN takes its own
  const std::uint64_t available = cirrus::device::cpu().memory().available;
  c10::GetCPUAllocator()->raw_deallocate(buffer);
  BOOST_TEST(at::ones({8}).sum().item<float>() == 8);
  BOOST_TEST(cirrus::device::cpu().memory().available > available / 2);
}

BOOST_AUTO_TEST_SUITE_END()
