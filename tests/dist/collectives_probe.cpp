// A program for tests that start several of it on a device: collectives_probe DEVICE [WORD]...
//   check        every collective against what is known by heart; prints the backend and a digest of a sum
//   large        the same of 12 MB
//   groups       two groups of one name, one of each rank alone, and broadcasts that the root sends ahead
//   trap         what c10d's own methods do to tensors of the device, and what ours do
//   place        "rank device identity", as choose_device() chooses
// An error is printed and its code is the exit code.
#include <ATen/ATen.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/errors.h"
#include "base/log.h"
#include "device/device.h"
#include "device/placement.h"
#include "dist/connection.h"
#include "dist/device_backend.h"
#include "dist/process_group.h"
#include "tests/dist/probe.h"

using namespace cirrus;

namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(ExitCode::requirement, what);
}

bool same(const at::Tensor& on_device, const at::Tensor& expected) {
  return at::equal(on_device.to(at::kCPU), expected.to(at::kCPU));
}

void check(dist::ProcessGroup& group, const at::Device& device, std::int64_t n, at::ScalarType type) {
  const int rank = group.rank(), size = group.size();
  const at::TensorOptions options = at::TensorOptions(type).device(device);
  const std::string what = std::string(c10::toString(type)) + " x " + std::to_string(n);
  const auto filled = [&](double value) { return at::full({n}, value, options); };
  const double total = size * (size + 1) / 2;
  at::Tensor t = filled(rank + 1);
  group.all_reduce(t, dist::Reduce::sum, "a test").wait();
  require(same(t, filled(total)), "all-reduce of " + what);
  t = filled(rank + 1);
  group.all_reduce(t, dist::Reduce::max, "a test").wait();
  require(same(t, filled(size)), "largest of " + what);
  // As data parallel asks for it.
  t = filled(rank + 1);
  const auto future = group.all_reduce(t, dist::Reduce::sum, "a test").work()->getFuture();
  future->waitAndThrow();
  const std::vector<at::Tensor> value = future->value().toTensorVector();
  require(value.size() == 1 && value[0].device() == t.device() && same(value[0], filled(total)),
          "future of an all-reduce of " + what);
  const at::Tensor all = at::empty({size, n}, options);
  group.all_gather(all, filled(rank), "a test").wait();
  for (int r = 0; r < size; ++r) require(same(all[r], filled(r)), "all-gather of " + what);
  all[rank].fill_(7 + rank);
  group.all_gather(all, all[rank], "a test").wait();
  for (int r = 0; r < size; ++r) require(same(all[r], filled(7 + r)), "all-gather in place of " + what);
  for (int r = 0; r < size; ++r) all[r].fill_((rank + 1) * (r + 1));
  const at::Tensor part = at::empty({n}, options);
  group.reduce_scatter(part, all, "a test").wait();
  require(same(part, filled(total * (rank + 1))), "reduce-scatter of " + what);
  t = filled(rank);
  group.broadcast(t, size - 1, "a test").wait();
  require(same(t, filled(size - 1)), "broadcast of " + what);
  std::vector<std::int64_t> to, from(static_cast<std::size_t>(size), rank + 1);  // rank r gets r + 1 rows from each
  for (int r = 0; r < size; ++r) to.push_back(r + 1);
  const at::Tensor sent = at::full({size * (size + 1) / 2, n}, rank, options),
                   received = at::empty({size * (rank + 1), n}, options);
  group.exchange(received, from, sent, to, "a test").wait();
  for (int r = 0; r < size; ++r)
    require(same(received.narrow(0, r * (rank + 1), rank + 1), at::full({rank + 1, n}, r, options)),
            "exchange of " + what);
  group.barrier("a test");
}

/// Of numbers that are not round, for comparing backends: of two ranks, sums do not depend on an order.
std::string digest(dist::ProcessGroup& group, const at::Device& device) {
  const at::Tensor own = (at::arange(100'003, at::kDouble) * (group.rank() + 0.37)).sin().to(at::kFloat).to(device);
  const at::Tensor all = at::empty({group.size(), own.numel()}, own.options()), part = at::empty_like(own);
  group.all_gather(all, own, "a digest").wait();
  group.reduce_scatter(part, all * 1.7, "a digest").wait();
  at::Tensor sum = own.clone();
  group.all_reduce(sum, dist::Reduce::sum, "a digest").wait();
  group.broadcast(part, 0, "a digest").wait();
  const at::Tensor host = at::cat({sum.to(at::kCPU), all.to(at::kCPU).view(-1), part.to(at::kCPU)}).contiguous();
  std::uint64_t h = 14695981039346656037ull;  // FNV-1a
  const auto* bytes = static_cast<const std::uint8_t*>(host.data_ptr());
  for (std::size_t i = 0; i < host.nbytes(); ++i) h = (h ^ bytes[i]) * 1099511628211ull;
  return std::to_string(h);
}

void check_groups(const dist::World& world, const device::Device& device) {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device.torch_device());
  for (int i = 0; i < 2; ++i) {
    const auto group = dist::make_group(world, device, dist::all_ranks(world, "twice"));
    at::Tensor t = at::full({5}, world.rank + 1 + i, options);
    group->all_reduce(t, dist::Reduce::sum, "a test").wait();
    require(t.max().item<float>() == static_cast<float>(world.size * (world.size + 1) / 2 + i * world.size),
            "all-reduce in group " + std::to_string(i) + " of one name");
  }
  const auto alone = dist::make_group(world, device, {"alone", world.rank, 0, 1});
  at::Tensor t = at::full({5}, world.rank, options);
  alone->all_reduce(t, dist::Reduce::sum, "a test").wait();
  require(t.max().item<float>() == static_cast<float>(world.rank), "all-reduce of a rank alone");
  // The root does not wait for those it sends to.
  const auto group = dist::make_group(world, device, dist::all_ranks(world, "many"));
  if (!world.is_lead()) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (int i = 0; i < 10; ++i) {
    t = at::full({5}, world.rank + i, options);
    group->broadcast(t, 0, "a test").wait();
    require(t.max().item<float>() == static_cast<float>(i), "broadcast " + std::to_string(i) + " in a row");
  }
  log::print("groups agree");
}

/// What a c10d::ProcessGroup with the very backend of ours makes of a tensor, by its own method.
void show_trap(const dist::World& world, const device::Device& device) {
  const at::Device on = device.torch_device();
  const auto group = dist::make_group(world, device, dist::all_ranks(world, "trap"));
  auto theirs = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), world.rank, world.size);
  using Type = c10d::ProcessGroup::BackendType;
  theirs->setBackend(on.type(), Type::CUSTOM, group->backend());
  // Of another type: a type has one backend.
  theirs->setBackend(at::kCPU, Type::GLOO, world.connection->host_backend("trap", 0, world.rank, world.size));
  theirs->setDefaultBackend(Type::CUSTOM);
  const float own = static_cast<float>(world.rank + 1), total = static_cast<float>(world.size * (world.size + 1) / 2);
  std::vector<at::Tensor> tensors{at::full({4}, own, at::TensorOptions(at::kFloat).device(on))};
  c10d::AllreduceOptions options;
  theirs->allreduce(tensors, options)->wait();
  const float by_theirs = tensors[0].to(at::kCPU)[0].item<float>();
  at::Tensor t = at::full({4}, own, at::TensorOptions(at::kFloat).device(on));
  group->all_reduce(t, dist::Reduce::sum, "a test").wait();
  require(t.to(at::kCPU)[0].item<float>() == total, "our all-reduce");
  log::print(std::string("dispatches ") + (dist::dispatches_collectives(on) ? "yes" : "no") + ", theirs " +
             (by_theirs == total ? "reduced"
              : by_theirs == own ? "unreduced"
                                 : "neither"));
}

int probe(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words;
  const dist::World world = dist::join_world();
  const std::string name =
      device::choose_device(words.at(0), {world.rank, world.size, world.local_rank, world.local_size});
  const std::unique_ptr<device::Device> device = device::open_device(name);
  const at::Device on = device->torch_device();
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "place")
      std::cout << std::to_string(world.rank) + " " + name + " " + device->identity() + "\n" << std::flush;
    if (words[i] == "groups") check_groups(world, *device);
    if (words[i] == "large") {
      const auto group = dist::make_group(world, *device, dist::all_ranks(world, "large"));
      check(*group, on, 3'000'000, at::kFloat);
      log::print("large agrees");
    }
    if (words[i] == "trap") show_trap(world, *device);
    if (words[i] == "check") {
      const auto group = dist::make_group(world, *device, dist::all_ranks(world, "test"));
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kInt})
        for (const std::int64_t n : {3, 100'000}) check(*group, on, n, type);
      const std::string sum = digest(*group, on);
      log::print("backend " + (group->backend() ? group->backend()->getBackendName() : "none"));
      log::print("digest " + sum);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return test::run_probe("collectives_probe", probe, argc, argv); }
