// The processes of one run: rank, size, local rank and host. One program started plainly is a world of one.
#pragma once

#include <string>

namespace cirrus::dist {

struct World {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  std::string host;
  std::string launcher;  ///< "mpi" or "none"

  bool is_lead() const { return rank == 0; }
};

/// The world this process was started in. Under mpiexec or srun, MPI is initialised and asked; a launcher whose
/// processes MPI does not see as one world throws Error(unavailable). Call once, early; MPI is finalised by
/// `leave_world()`, at exit at the latest.
World join_world();
void leave_world();

/// Throws Error(unavailable) if the world has more than one process: for work that this version runs in one process
/// only.
void require_single(const World& world, const std::string& what);

}  // namespace cirrus::dist
