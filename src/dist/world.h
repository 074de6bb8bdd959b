// The processes of one run: rank, size, place on the host, and what they talk over. One program started plainly is a
// world of one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cirrus::dist {

class Connection;

struct World {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  ///< among the ranks of this host
  int node = 0, nodes = 1;             ///< hosts, numbered by their lowest rank
  std::string host;
  std::string launcher = "none";           ///< "mpi", "environment" (RANK, WORLD_SIZE) or "none"
  std::vector<int> node_of;                ///< by rank
  std::shared_ptr<Connection> connection;  ///< null in a world of one

  bool is_lead() const { return rank == 0; }
  /// Whether every host runs equally many ranks, numbered host by host: what `hybrid` needs.
  bool is_uniform() const;
};

/// The world this process was started in. Under mpiexec or srun, MPI is initialised and asked; a launcher whose
/// processes MPI does not see as one world throws Error(unavailable) that names launcher, library and cure. With RANK
/// and WORLD_SIZE alone (torchrun, Kubernetes), ranks meet at MASTER_ADDR:MASTER_PORT. Call once, early. Ranks that do
/// not come within 60 s (CIRRUS_RENDEZVOUS_TIMEOUT) are named.
World join_world();

/// Ends what join_world() began: waits for the other ranks, then ends MPI. At exit at the latest, with its status.
void leave_world(int status = 0);

/// Each rank's text, by rank; in a world of one, its own. All ranks call it.
std::vector<std::string> gather_texts(const World& world, const std::string& text);
/// The lead's text on all ranks. All ranks call it.
std::string broadcast_text(const World& world, const std::string& text);
void barrier(const World& world);
/// As barrier(), however much more work some ranks have than others: the time limit of collectives does not count.
/// Throws Error(interrupted) once a signal came.
void meet(const World& world);
/// The sum of each rank's values, on all ranks, in place. All ranks call it.
void sum_over_ranks(const World& world, std::vector<double>& values);
/// What this rank does, for the sentence that names it when others wait for it in vain: "step 17".
void set_phase(const World& world, const std::string& phase);

/// Tells once who computes where: one line a host. `device` is this rank's. Throws Error(unavailable) if two ranks of
/// a host have the same card (`identity`; empty: not to be compared). All ranks call it.
void show_ranks(const World& world, const std::string& device, const std::string& identity);

/// Throws Error(unavailable) if the world has more than one process: for work that runs in one process only.
void require_single(const World& world, const std::string& what);

}  // namespace cirrus::dist
