// Joins the world a launcher made, and leaves it: in order, or telling the others that this rank fails.
#include "dist/world.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "base/errors.h"
#include "base/log.h"
#include "base/program.h"
#include "base/signals.h"
#include "dist/connection.h"
#include "dist/launcher.h"
#include "dist/mpi_backend.h"
#include "dist/process_group.h"

namespace cirrus::dist {
namespace {

std::weak_ptr<Connection> joined;  // what leave_world() ends
int own_rank = 0, own_size = 1;

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

/// N processes that each believe they are alone, or any other number than was started.
[[noreturn]] void refuse_launcher(const Launch& launch, int seen) {
  const std::string library = mpi_library();
  const bool mpich = library.find("MPICH") != std::string::npos;
  std::string cure = "launch with the mpiexec of " + library;
  if (launch.launcher.starts_with("srun"))
    cure = mpich ? "use srun --mpi=pmi2 (srun --mpi=list shows what this Slurm has), or mpiexec inside the job"
                 : "use srun --mpi=pmix (srun --mpi=list shows what this Slurm has), or mpirun inside the job";
  else if (launch.launcher.find("Open MPI") != std::string::npos)
    cure = "this is Open MPI's mpirun: use the mpiexec of " + library + " (on Debian mpiexec.mpich)";
  else if (launch.launcher.find("Hydra") != std::string::npos)
    cure = mpich ? "use the mpiexec of that MPICH, or unset " + launch.size_variable + " to run one process"
                 : "this is MPICH's mpiexec: use the mpirun of " + library;
  throw Error(ExitCode::unavailable,
              launch.launcher + " started " + std::to_string(launch.size) + " processes (" + launch.size_variable +
                  "), but " + library + ", which Cirrus was built with, sees a world of " + std::to_string(seen),
              cure);
}

/// Fills in who shares a host with whom.
void place(World& world, const std::vector<std::string>& hosts) {
  std::map<std::string, int> node_of_host;
  std::map<std::string, int> ranks_of_host;
  world.node_of.clear();
  for (int rank = 0; rank < world.size; ++rank) {
    const std::string& host = hosts[static_cast<std::size_t>(rank)];
    const auto found = node_of_host.emplace(host, static_cast<int>(node_of_host.size()));
    world.node_of.push_back(found.first->second);
    if (rank == world.rank) world.local_rank = ranks_of_host[host];
    ++ranks_of_host[host];
  }
  world.nodes = static_cast<int>(node_of_host.size());
  world.node = world.node_of[static_cast<std::size_t>(world.rank)];
  world.local_size = ranks_of_host[hosts[static_cast<std::size_t>(world.rank)]];
}

/// What the failing of this rank means for the others; see set_failure_hook().
FailureReport on_failure(int code, const std::string& message) {
  const std::shared_ptr<Connection> connection = joined.lock();
  if (!connection) return {true, "", code};
  const bool together = connection->watchdog().failed(code, message);
  const std::string name = "rank " + std::to_string(own_rank) + " on " + host_name() + ": ";
  if (together) return {own_rank == 0, "", connection->watchdog().agreed_code()};
  return {true, own_rank == 0 ? "" : name, code};
}

void meet_all(World& world, const Launch& launch) {
  Rendezvous meeting = meet(world, launch);
  world.connection = std::make_shared<Connection>(meeting, launch.speaks_mpi);
  std::vector<std::string> names;
  const std::vector<std::string> hosts = meeting.exchange("host", world.rank, world.size, world.host);
  place(world, hosts);
  for (int r = 0; r < world.size; ++r)
    names.push_back("rank " + std::to_string(r) + " on " + hosts[static_cast<std::size_t>(r)]);
  world.connection->watch(std::make_unique<Watchdog>(meeting.connect(), world.rank, names));
  world.connection->open_control(world);
}

std::shared_ptr<Connection> keep;  // until leave_world()

}  // namespace

bool World::is_uniform() const {
  for (std::size_t r = 0; r < node_of.size(); ++r)
    if (node_of[r] != static_cast<int>(r) / (size / nodes)) return false;
  return size % nodes == 0;
}

World join_world() {
  World world;
  world.host = host_name();
  const Launch launch = read_launch();
  if (launch.size <= 1) return world;
  world.rank = launch.rank;
  world.size = launch.size;
  on_exit([](int status, void*) { leave_world(status); },
          nullptr);  // also when an error ends the program: a launcher takes an exit without it for a crash
  if (launch.speaks_mpi && has_mpi()) {
    const MpiPlace mpi = start_mpi();
    if (mpi.size != launch.size) refuse_launcher(launch, mpi.size);
    world.rank = mpi.rank;
    world.launcher = "mpi";
  } else {
    if (std::getenv("MASTER_ADDR") == nullptr)
      throw Error(ExitCode::unavailable,
                  launch.launcher + " started " + std::to_string(launch.size) + " processes, " +
                      (has_mpi() ? "and MASTER_ADDR does not say where they meet"
                                 : "but this build has no MPI, and MASTER_ADDR does not say where they meet"),
                  has_mpi() ? "set MASTER_ADDR and MASTER_PORT, as torchrun does, or launch with mpiexec"
                            : "configure with -DCIRRUS_MPI=ON; or, for GPUs and Gaudi cards, set MASTER_ADDR and "
                              "MASTER_PORT; or run one process");
    world.launcher = "environment";
  }
  own_rank = world.rank;
  own_size = world.size;
  log::set_speaking(world.is_lead());
  meet_all(world, launch);
  keep = world.connection;
  joined = world.connection;
  set_failure_hook(on_failure);
  return world;
}

void leave_world(int status) {
  if (keep) {
    if (keep->watchdog().failed_alone()) Watchdog::end_all(keep->watchdog().agreed_code());  // nobody can be waited for
    keep->close(own_rank, own_size);
    keep.reset();
  }
  finish_mpi(status);
}

std::vector<std::string> gather_texts(const World& world, const std::string& text) {
  if (world.size == 1) return {text};
  ProcessGroup& control = world.connection->control();
  const at::Tensor length = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong),
                   lengths = at::empty({world.size}, at::kLong);
  control.all_gather(lengths, length, "the lengths of texts").wait();
  const std::int64_t longest = std::max<std::int64_t>(1, lengths.max().item<std::int64_t>());
  const at::Tensor mine = at::zeros({longest}, at::kByte), all = at::empty({world.size, longest}, at::kByte);
  std::copy(text.begin(), text.end(), static_cast<char*>(mine.data_ptr()));
  control.all_gather(all, mine, "texts").wait();
  std::vector<std::string> out;
  for (int r = 0; r < world.size; ++r)
    out.emplace_back(static_cast<const char*>(all[r].data_ptr()),
                     static_cast<std::size_t>(lengths[r].item<std::int64_t>()));
  return out;
}

std::string broadcast_text(const World& world, const std::string& text) {
  if (world.size == 1) return text;
  return gather_texts(world, world.is_lead() ? text : "")[0];
}

void barrier(const World& world) {
  if (world.size > 1) world.connection->control().barrier("all ranks");
}

void meet(const World& world) {
  signals::check_interrupt();
  if (world.size == 1) return;
  c10d::Store& store = *world.connection->store();
  const auto key = [](std::uint64_t number, const char* what) {
    return "meeting/" + std::to_string(number) + "/" + what;
  };
  const std::uint64_t number = world.connection->next_meeting();
  if (store.add(key(number, "here"), 1) == world.size) store.set(key(number, "all"), std::vector<std::uint8_t>{1});
  using namespace std::chrono_literals;
  for (auto pause = 1ms; !store.check({key(number, "all")});
       pause = std::min<std::chrono::milliseconds>(2 * pause, 50ms)) {
    std::this_thread::sleep_for(pause);
    signals::check_interrupt();
  }
  if (!world.is_lead() || number == 0) return;
  for (const char* what : {"here", "all"}) store.deleteKey(key(number - 1, what));  // all have left that one
}

void sum_over_ranks(const World& world, std::vector<double>& values) {
  if (world.size == 1) return;
  const at::Tensor t = at::tensor(values, at::kDouble);
  world.connection->control().all_reduce(t, Reduce::sum, "agreements").wait();
  std::copy_n(t.data_ptr<double>(), values.size(), values.begin());
}

void set_phase(const World& world, const std::string& phase) {
  if (world.size > 1) world.connection->watchdog().set_phase(phase);
}

void show_ranks(const World& world, const std::string& device, const std::string& identity) {
  if (world.size == 1) return;
  const std::vector<std::string> devices = gather_texts(world, device + " (pid " + std::to_string(getpid()) + ")"),
                                 identities = gather_texts(world, identity), hosts = gather_texts(world, world.host);
  std::map<std::pair<int, std::string>, int> owner;
  for (int r = 0; r < world.size; ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (identities[i].empty()) continue;
    const auto [found, is_new] = owner.emplace(std::pair{world.node_of[i], identities[i]}, r);
    if (!is_new)
      throw Error(ExitCode::unavailable,
                  "Ranks " + std::to_string(found->second) + " and " + std::to_string(r) + " on " + hosts[i] +
                      " have the same card, " + identities[i],
                  "start one process a card, and leave all cards of a host visible to its processes, or one each");
  }
  log::info(std::to_string(world.size) + " ranks on " + std::to_string(world.nodes) +
            (world.nodes == 1 ? " host, by " : " hosts, by ") +
            (world.launcher == "mpi" ? mpi_library() : "RANK and WORLD_SIZE") + ":");
  for (int node = 0; node < world.nodes; ++node) {
    std::string line;
    for (int r = 0; r < world.size; ++r) {
      if (world.node_of[static_cast<std::size_t>(r)] != node) continue;
      if (line.empty()) line = "  " + hosts[static_cast<std::size_t>(r)] + ":";
      line += " " + std::to_string(r) + "=" + devices[static_cast<std::size_t>(r)];
    }
    log::info(line);
  }
}

void require_single(const World& world, const std::string& what) {
  if (world.size > 1)
    throw Error(ExitCode::unavailable,
                what + " runs in one process, and the launcher started " + std::to_string(world.size),
                "start it without mpiexec or srun -n; it uses all cores of the machine");
}

}  // namespace cirrus::dist
