// A program for tests that start several of it: joins the world and does what its first word says. Prints what tests
// look at; failures of its own checks end it with 1.
//   place                 "rank size local_rank local_size node nodes launcher"
//   single                refuses more than one process
//   collectives           every collective in every element type against sums known by heart
//   texts                 gathered and broadcast texts
//   late RANK SECONDS     that rank comes to a barrier so much later
//   loop SECONDS          all-reduces of 1 MB so long
//   die RANK SIGNAL       that rank ends by a signal while the others wait for it
//   fail RANK|all CODE    that rank, or all, end with an error
#include <ATen/ATen.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include "base/errors.h"
#include "base/log.h"
#include "device/device.h"
#include "dist/process_group.h"
#include "tests/dist/probe.h"

using namespace cirrus;

namespace {

void require(bool holds, const std::string& what) {
  if (holds) return;
  throw Error(ExitCode::requirement, what);
}

at::Tensor filled(std::int64_t n, double value, at::ScalarType type) {
  return at::full({n}, value, at::TensorOptions(type == at::kBool ? at::kBool : type));
}

/// Of `n` elements each: 3 and 100000 are below and above what travels without a barrier.
void check_collectives(dist::ProcessGroup& group, std::int64_t n, at::ScalarType type) {
  const int rank = group.rank(), size = group.size();
  const std::string what = std::string(c10::toString(type)) + " x " + std::to_string(n);
  const double total = type == at::kBool ? 1 : size * (size + 1) / 2;
  at::Tensor t = filled(n, rank + 1, type);
  group.all_reduce(t, dist::Reduce::sum, "a test").wait();
  require(at::equal(t, filled(n, total, type)), "all-reduce of " + what);
  if (!at::isComplexType(type)) {
    t = filled(n, rank + 1, type);
    group.all_reduce(t, dist::Reduce::max, "a test").wait();
    require(at::equal(t, filled(n, size, type)), "largest of " + what);
  }
  const at::Tensor all = at::empty({size, n}, at::TensorOptions(type));
  group.all_gather(all, filled(n, rank, type), "a test").wait();
  for (int r = 0; r < size; ++r) require(at::equal(all[r], filled(n, r, type)), "all-gather of " + what);
  all[rank].fill_(7 + rank);
  group.all_gather(all, all[rank], "a test").wait();  // in place
  for (int r = 0; r < size; ++r) require(at::equal(all[r], filled(n, 7 + r, type)), "all-gather in place of " + what);
  for (int r = 0; r < size; ++r) all[r].fill_((rank + 1) * (type == at::kBool ? 1 : r + 1));
  const at::Tensor part = at::empty({n}, at::TensorOptions(type));
  group.reduce_scatter(part, all, "a test").wait();
  require(at::equal(part, filled(n, type == at::kBool ? 1 : total * (rank + 1), type)), "reduce-scatter of " + what);
  t = filled(n, rank, type);
  group.broadcast(t, size - 1, "a test").wait();
  require(at::equal(t, filled(n, size - 1, type)), "broadcast of " + what);
  // Rank r gets r + 1 rows from each.
  std::vector<std::int64_t> to, from(static_cast<std::size_t>(size), rank + 1);
  for (int r = 0; r < size; ++r) to.push_back(r + 1);
  const at::Tensor sent = filled(size * (size + 1) / 2, rank, type).unsqueeze(1).expand({-1, n}).contiguous(),
                   received = at::empty({size * (rank + 1), n}, at::TensorOptions(type));
  group.exchange(received, from, sent, to, "a test").wait();
  for (int r = 0; r < size; ++r)
    require(at::equal(received.narrow(0, r * (rank + 1), rank + 1), filled(n, r, type).expand({rank + 1, n})),
            "exchange of " + what);
}

int probe(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words;
  const std::string command = words.empty() ? "place" : words[0];
  const auto word = [&](std::size_t i) { return i < words.size() ? words[i] : std::string("0"); };
  const dist::World world = dist::join_world();
  if (command == "place")
    std::cout << std::to_string(world.rank) + " " + std::to_string(world.size) + " " +
                     std::to_string(world.local_rank) + " " + std::to_string(world.local_size) + " " +
                     std::to_string(world.node) + " " + std::to_string(world.nodes) + " " + world.launcher + "\n";
  if (command == "single") dist::require_single(world, "Probing");
  const bool mine = word(1) == "all" || word(1) == std::to_string(world.rank);
  if (command == "collectives") {
    const auto group = dist::make_group(world, device::cpu(), dist::all_ranks(world, "test"));
    for (const at::ScalarType type :
         {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte,
          at::kBool, at::kComplexFloat, at::kComplexDouble})
      for (const std::int64_t n : {3, 100'000}) check_collectives(*group, n, type);
    const dist::Traffic before = group->traffic();
    const at::Tensor t = at::zeros({1000}, at::kFloat);
    group->all_reduce(t, dist::Reduce::sum, "a test").wait();
    require(group->traffic().all_reduce.sent - before.all_reduce.sent == 2 * 4000 * (world.size - 1) / world.size,
            "bytes sent");
    log::print("collectives agree");
  }
  if (command == "texts") {
    const std::string own(static_cast<std::size_t>(3 * world.rank), static_cast<char>('a' + world.rank));
    std::string all;
    for (const std::string& text : dist::gather_texts(world, own)) all += "[" + text + "]";
    std::cout << all + dist::broadcast_text(world, own + "lead") + "\n";
  }
  if (command == "late") {
    if (mine) std::this_thread::sleep_for(std::chrono::duration<double>(std::stod(word(2))));
    dist::barrier(world);
    log::print("all came");
  }
  if (command == "loop") {
    const auto group = dist::make_group(world, device::cpu(), dist::all_ranks(world, "test"));
    const auto started = std::chrono::steady_clock::now();
    const at::Tensor t = at::zeros({1 << 18}, at::kFloat), on = at::ones({1}, at::kLong);
    while (on.item<std::int64_t>() != 0) {
      group->all_reduce(t, dist::Reduce::sum, "a loop").wait();
      on.fill_(std::chrono::steady_clock::now() - started < std::chrono::duration<double>(std::stod(word(1))));
      group->broadcast(on, 0, "a loop").wait();
    }
  }
  if (command == "die") {
    dist::barrier(world);
    if (mine) raise(std::stoi(word(2)));
    dist::barrier(world);
  }
  if (command == "fail" && mine)
    throw Error(static_cast<ExitCode>(std::stoi(word(2))), "it was told to fail", "do not tell it");
  if (command == "fail") dist::barrier(world);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return test::run_probe("world_probe", probe, argc, argv); }
