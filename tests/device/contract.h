// What every device must do, whatever it is: the suite that a new backend has to pass.
#pragma once

#include <boost/test/unit_test.hpp>
#include <set>
#include <thread>

#include "device/device.h"

namespace cirrus::test {

inline void check_contract(device::Device& d) {
  BOOST_TEST(!d.name().empty());

  const device::Capabilities c = d.capabilities();
  BOOST_TEST_REQUIRE(!c.dtypes.empty());
  BOOST_TEST((std::set(c.dtypes.begin(), c.dtypes.end()).size() == c.dtypes.size()), "a dtype is listed twice");
  BOOST_TEST((std::set<std::string>{"", "mpi", "nccl", "hccl"}.contains(c.collective_backend)), c.collective_backend);

  // Tensors live where it says, and arithmetic there is right in every type it offers.
  d.seed(1);
  for (const at::ScalarType type : c.dtypes) {
    const at::Tensor a = at::arange(12, at::TensorOptions(at::kFloat)).view({3, 4}).to(d.torch_device(), type);
    BOOST_TEST((a.device().type() == d.torch_device().type()));
    if (c10::elementSize(type) == 1) {  // eight bits store; what multiplies them scales them first
      d.end_step();
      BOOST_TEST(a.to(at::kFloat).to(at::kCPU)[2][0].item<double>() == 8);
      continue;
    }
    const at::Tensor product =
        at::matmul(a, a.t());  // whole numbers up to 366: exact in bfloat16 up to rounding at 2^-8
    d.end_step();
    d.synchronize();
    const at::Tensor host = product.to(at::kCPU, at::kFloat);
    BOOST_TEST(host[2][2].item<double>() == 366, boost::test_tools::tolerance(1.0 / 256));
    BOOST_TEST(host[0][1].item<double>() == 38, boost::test_tools::tolerance(1.0 / 256));
  }
  // Ending a step with nothing queued, and waiting twice, do nothing.
  d.end_step();
  d.synchronize();
  d.synchronize();

  const device::MemoryStatistics before = d.memory();
  BOOST_TEST(before.total > 0u);
  BOOST_TEST(before.available <= before.total);
  const at::Tensor held = at::ones({8 << 20}, at::TensorOptions(at::kFloat).device(d.torch_device()));  // 32 MiB
  d.synchronize();
  const device::MemoryStatistics after = d.memory();
  BOOST_TEST(after.peak_used >= before.peak_used);
  BOOST_TEST(after.peak_used >= held.nbytes());
  BOOST_TEST(after.peak_used <= after.total);

  const auto first = d.record_event();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto second = d.record_event();
  BOOST_TEST(first->seconds_until(*second) >=
             0.004);  // a sleep lasts at least its length; clocks of devices tick coarsely
  BOOST_TEST(second->seconds_until(*first) <= 0);
  BOOST_TEST(first->seconds_until(*first) == 0);

  for (const char* name : {"auto", "fp32", "bf16"})
    BOOST_TEST(!device::dtype_name(device::resolve_dtype(name, d)).empty());
  BOOST_TEST((device::resolve_dtype("fp32", d) == at::kFloat));
  const at::ScalarType chosen = device::resolve_dtype("auto", d);
  BOOST_TEST((chosen == at::kBFloat16 || chosen == at::kFloat));
}

}  // namespace cirrus::test
