// Collectives on tensors of a device: over host memory, and by the library of a stand-in for a Gaudi card, whose
// process group exists in Python alone. Both must give the same, and where the library cannot be used, all ranks must
// know.
#include <boost/test/unit_test.hpp>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "dist/device_backend.h"
#include "dist/staged_backend.h"
#include "dist/store_backend.h"
#include "tests/cli/subprocess.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;

using Variables = std::map<std::string, std::string>;
const fs::path kStandIn = CIRRUS_STAND_IN;

/// What two processes need to see the stand-in; `more` comes first.
Variables card(Variables more = {}) {
  const char* libraries = std::getenv("LD_LIBRARY_PATH");
  const std::string others = libraries == nullptr ? "" : std::string(":") + libraries;
  more.insert({{"CIRRUS_MODULE_PATH", CIRRUS_MODULES},
               {"CIRRUS_HPU_PLUGIN", (kStandIn / "habana_frameworks").string()},
               {"LD_LIBRARY_PATH", (kStandIn / "management").string() + ":" + (kStandIn / "empty").string() + others},
               {"OMP_NUM_THREADS", "1"},
               {"UCX_HANDLE_ERRORS", "none"},
               {"GLOO_SOCKET_IFNAME", "lo"},
               {"CIRRUS_FAKE_HPU_FAULT", ""},
               {"CIRRUS_COLLECTIVES", ""},
               {"HLS_MODULE_ID", ""},
               {"HABANA_VISIBLE_MODULES", ""}});
  return more;
}

/// Two ranks of collectives_probe under mpiexec; `second` are variables of the second alone.
Outcome two_ranks(const std::vector<std::string>& words, const Variables& environment, const Variables& second = {}) {
  const std::string probe = program_path("collectives_probe").string();
  std::vector<std::string> line{"-n", second.empty() ? "2" : "1", probe};
  line.insert(line.end(), words.begin(), words.end());
  if (!second.empty()) {
    line.insert(line.end(), {":", "-n", "1"});
    for (const auto& [name, value] : second) line.insert(line.end(), {"-env", name, value});
    line.push_back(probe);
    line.insert(line.end(), words.begin(), words.end());
  }
  return run(mpiexec(), line, {.environment = environment});
}

/// The same without MPI, as torchrun would start them.
Outcome two_ranks_by_environment(const std::string& words, Variables environment) {
  environment.insert({{"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", std::to_string(20'000 + getpid() % 20'000)},
                      {"WORLD_SIZE", "2"},
                      {"LOCAL_WORLD_SIZE", "2"}});
  const std::string probe = program_path("collectives_probe").string() + " " + words;
  return run("/bin/sh",
             {"-c", "RANK=1 LOCAL_RANK=1 " + probe + " & RANK=0 LOCAL_RANK=0 " + probe + "; c=$?; wait $! && exit $c"},
             {.environment = environment});
}

/// The rest of the line of stdout that begins with `key`.
std::string line_of(const Outcome& o, const std::string& key) {
  std::istringstream in(o.out);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + " ")) return line.substr(key.size() + 1);
  return "";
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// The word "digest" of two ranks over host memory: what every other way must give.
const std::string& expected_digest() {
  static const std::string digest = [] {
    const Outcome o = two_ranks({"hpu", "check"}, card({{"CIRRUS_COLLECTIVES", "host"}}));
    BOOST_TEST_REQUIRE(o.code == 0, o.err);
    return line_of(o, "digest");
  }();
  return digest;
}

/// Whether Python can import the torch of this build; says why not.
bool python_is_here() {
#ifdef CIRRUS_HAVE_HCCL
  static const bool lacking = contains(two_ranks({"hpu", "groups"}, card()).err, "No module named 'typing_extensions'");
  if (!lacking) return true;
  BOOST_TEST_MESSAGE("skipped: Python's torch needs typing_extensions (pip install --target .deps typing_extensions)");
#else
  BOOST_TEST_MESSAGE("skipped: built without the bridge to HCCL, for want of Python's headers (python3-dev)");
#endif
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(staged_collectives)

/// Three ranks as threads over a store in this process; the "device" is the CPU, copies are real.
BOOST_AUTO_TEST_CASE(results_land_in_the_device_s_tensors_when_they_are_waited_for) {
  constexpr int kSize = 3;
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> failures(kSize);
  const auto rank_work = [&](int rank) {
    const auto require = [&](bool holds, const char* what) {
      if (!holds) failures[static_cast<std::size_t>(rank)] += std::string(what) + "; ";
    };
    dist::StagedBackend backend(dist::make_store_backend(store, "staged", rank, kSize), at::TensorOptions(at::kCPU));
    require(backend.getRank() == rank && backend.getSize() == kSize, "rank and size");
    require(backend.getBackendName() == "staged over cirrus-store", "name");
    const float own = static_cast<float>(rank + 1);
    std::vector<at::Tensor> tensors{at::full({4, 2}, own)};
    auto work = backend.allreduce(tensors, c10d::AllreduceOptions());
    require(tensors[0].eq(own).all().item<bool>(), "untouched before wait");
    work->wait();
    require(tensors[0].eq(6).all().item<bool>(), "all-reduce");
    tensors[0].fill_(own);
    work->wait();  // a second time it writes nothing
    require(tensors[0].eq(own).all().item<bool>(), "waited for twice");
    // What does not lie densely: every second column.
    const at::Tensor wide = at::full({4, 4}, own), columns = wide.slice(1, 0, 4, 2);
    tensors = {columns};
    c10d::AllreduceOptions mean;
    mean.reduceOp = c10d::ReduceOp::AVG;
    backend.allreduce(tensors, mean)->wait();
    require(columns.eq(2).all().item<bool>() && wide.slice(1, 1, 4, 2).eq(own).all().item<bool>(), "columns");
    // Transposed memory: as it lies.
    at::Tensor turned = (at::arange(6, at::kFloat) + own).view({2, 3}).t();
    tensors = {turned};
    backend.allreduce(tensors, c10d::AllreduceOptions())->wait();
    require(turned.equal(((at::arange(6, at::kFloat) * 3 + 6).view({2, 3})).t()), "transposed");
    at::Tensor all = at::zeros({kSize, 2}), mine = all[rank];
    mine.fill_(own);
    backend._allgather_base(all, mine, c10d::AllgatherOptions())->wait();
    for (int r = 0; r < kSize; ++r) require(all[r].eq(r + 1).all().item<bool>(), "all-gather in place");
    std::vector<std::vector<at::Tensor>> list(1);
    for (int r = 0; r < kSize; ++r) list[0].push_back(at::zeros({2}));
    std::vector<at::Tensor> input{at::full({2}, own)};
    backend.allgather(list, input, c10d::AllgatherOptions())->wait();
    for (int r = 0; r < kSize; ++r)
      require(list[0][static_cast<std::size_t>(r)].eq(r + 1).all().item<bool>(), "all-gather into a list");
    at::Tensor part = at::zeros({2}), whole = (at::arange(2 * kSize, at::kFloat) * own).view({kSize, 2});
    backend._reduce_scatter_base(part, whole, c10d::ReduceScatterOptions())->wait();
    require(part.equal(at::arange(2, at::kFloat) * 6 + 12 * rank), "reduce-scatter");
    c10d::BroadcastOptions from;
    from.rootRank = 1;
    tensors = {at::full({3}, own)};
    const auto future = backend.broadcast(tensors, from)->getFuture();
    require(future->completed() && tensors[0].eq(2).all().item<bool>(), "broadcast, by its future");
    backend.barrier(c10d::BarrierOptions())->wait();
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kSize; ++rank)
    ranks.emplace_back([&, rank] {
      try {
        rank_work(rank);
      } catch (const std::exception& e) {
        failures[static_cast<std::size_t>(rank)] += e.what();
      }
    });
  for (std::thread& t : ranks) t.join();
  for (const std::string& failure : failures) BOOST_TEST(failure == "");
}

BOOST_AUTO_TEST_CASE(a_device_without_its_library_is_right_over_host_memory) {
  const Outcome mpi = two_ranks({"hpu", "check", "groups", "large"}, card({{"CIRRUS_COLLECTIVES", "host"}}));
  BOOST_TEST(mpi.code == 0, mpi.err);
  BOOST_TEST(line_of(mpi, "backend") == "staged over cirrus-mpi");
  BOOST_TEST(contains(mpi.out, "groups agree"));
  BOOST_TEST(contains(mpi.out, "large agrees"));
  BOOST_TEST(count(mpi.err, "CIRRUS_COLLECTIVES=host") == 1, mpi.err);
  const Outcome plain = two_ranks_by_environment("hpu check groups large", card({{"CIRRUS_COLLECTIVES", "host"}}));
  BOOST_TEST(plain.code == 0, plain.err);
  BOOST_TEST(line_of(plain, "backend") == "staged over cirrus-store");
  BOOST_TEST(contains(plain.out, "groups agree"));
  BOOST_TEST(contains(plain.out, "large agrees"));
  BOOST_TEST(line_of(mpi, "digest") != "");
  BOOST_TEST(line_of(plain, "digest") == line_of(mpi, "digest"));
  const Outcome wrong = two_ranks({"hpu", "check"}, card({{"CIRRUS_COLLECTIVES", "hots"}}));
  BOOST_TEST(wrong.code == 78, wrong.err);
}

/// c10d's own method returns what went in, and says that all is well; ours reduces.
BOOST_AUTO_TEST_CASE(c10d_s_operators_do_not_reduce_there_and_ours_do) {
  const Outcome o = two_ranks({"hpu", "trap"}, card({{"CIRRUS_COLLECTIVES", "host"}}));
  BOOST_TEST(o.code == 0, o.err);
  BOOST_TEST(o.out == "dispatches no, theirs unreduced\n");
  BOOST_TEST(dist::dispatches_collectives(at::Device(at::kCPU)));
}

BOOST_AUTO_TEST_CASE(a_library_that_does_not_load_is_told_once_and_gone_without) {
  const ScratchFolder folder;
  const std::string whole = contents(fs::path(CIRRUS_MODULES) / "libcirrus_hpu.so");
  fs::create_symlink(fs::path(CIRRUS_MODULES) / "libcirrus_hpu.so", folder / "libcirrus_hpu.so");
  put(folder / "libcirrus_hccl.so", whole.substr(0, whole.size() / 2));
  Outcome o = two_ranks({"hpu", "check", "groups"}, card({{"CIRRUS_MODULE_PATH", folder.path().string()}}));
  BOOST_TEST(o.code == 0, o.err);
  BOOST_TEST(count(o.err, "warning") == 1, o.err);
  BOOST_TEST(contains(o.err, "cut off"), o.err);
  BOOST_TEST(line_of(o, "backend") == "staged over cirrus-mpi");
  fs::remove(folder / "libcirrus_hccl.so");
  fs::create_symlink(fs::path(CIRRUS_MODULES) / "libcirrus_hpu.so", folder / "libcirrus_hccl.so");
  o = two_ranks({"hpu", "check"}, card({{"CIRRUS_MODULE_PATH", folder.path().string()}}));
  BOOST_TEST(o.code == 0, o.err);
  BOOST_TEST(contains(o.err, "another version of Cirrus"), o.err);
}

BOOST_AUTO_TEST_CASE(each_rank_gets_its_card) {
  const Outcome o = two_ranks({"hpu", "place"}, card({{"HABANA_VISIBLE_MODULES", "4,6"}}));
  BOOST_TEST(o.code == 0, o.err);
  BOOST_TEST(contains(o.out, "0 hpu module 4\n"), o.out);
  BOOST_TEST(contains(o.out, "1 hpu module 6\n"), o.out);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(bridged_collectives)

BOOST_AUTO_TEST_CASE(a_process_group_made_in_python_gives_what_host_memory_gives) {
  if (!python_is_here()) return;
  const Outcome mpi = two_ranks({"hpu", "check", "groups", "large"}, card());
  BOOST_TEST(mpi.code == 0, mpi.err);
  BOOST_TEST(mpi.err == "");
  BOOST_TEST(line_of(mpi, "backend") == "hccl");
  BOOST_TEST(line_of(mpi, "digest") == expected_digest());
  BOOST_TEST(contains(mpi.out, "groups agree"));
  BOOST_TEST(contains(mpi.out, "large agrees"));
  const Outcome plain = two_ranks_by_environment("hpu check groups", card());
  BOOST_TEST(plain.code == 0, plain.err);
  BOOST_TEST(line_of(plain, "backend") == "hccl");
  BOOST_TEST(line_of(plain, "digest") == expected_digest());
}

BOOST_AUTO_TEST_CASE(c10d_s_operators_do_not_reduce_there_either) {
  if (!python_is_here()) return;
  const Outcome o = two_ranks({"hpu", "trap"}, card());
  BOOST_TEST(o.code == 0, o.err);
  BOOST_TEST(o.out == "dispatches no, theirs unreduced\n");
}

BOOST_AUTO_TEST_CASE(where_one_rank_cannot_none_does) {
  if (!python_is_here()) return;
  const Outcome all = two_ranks({"hpu", "check"}, card({{"CIRRUS_FAKE_HPU_FAULT", "no_package"}})),
                one = two_ranks({"hpu", "check"}, card(), {{"CIRRUS_FAKE_HPU_FAULT", "no_hccl"}});
  for (const Outcome* o : {&all, &one}) {
    BOOST_TEST(o->code == 0, o->err);
    BOOST_TEST(count(o->err, "warning") == 1, o->err);
    BOOST_TEST(line_of(*o, "backend") == "staged over cirrus-mpi");
    BOOST_TEST(line_of(*o, "digest") == expected_digest());
  }
  BOOST_TEST(contains(all.err, "cannot import Gaudi's package: ImportError: libSynapse.so"), all.err);
  BOOST_TEST(!contains(all.err, "more lines"), all.err);
  BOOST_TEST(contains(one.err, "registers no backend hccl"), one.err);
  BOOST_TEST(contains(one.err, "(rank 1)"), one.err);
}

BOOST_AUTO_TEST_CASE(a_plug_in_without_its_package_is_told) {
  if (!python_is_here()) return;
  const ScratchFolder folder;
  fs::create_directories(folder / "plugin/lib");
  const fs::path lib = kStandIn / "habana_frameworks/torch/lib";
  for (const char* file : {"libhabana_pytorch_plugin.so", "native_operators.txt"})
    fs::create_symlink(lib / file, folder / "plugin/lib" / file);
  const std::string plugin = (folder / "plugin/lib/libhabana_pytorch_plugin.so").string();
  const Outcome o = two_ranks({"hpu", "check"}, card({{"CIRRUS_HPU_PLUGIN", plugin}}));
  BOOST_TEST(o.code == 0, o.err);
  BOOST_TEST(contains(o.err, "habana_frameworks/torch, and the plug-in is in"), o.err);
  BOOST_TEST(line_of(o, "digest") == expected_digest());
}

BOOST_AUTO_TEST_SUITE_END()
