// What the launcher of this process says in its environment: who started it, as which rank, of how many. Whether the
// library that carries messages agrees is world.cpp's business.
#pragma once

#include <string>

namespace cirrus::dist {

struct Launch {
  std::string launcher;  ///< as users know it: "mpiexec (Hydra)", "srun", ...; empty: started plainly
  std::string size_variable;
  int rank = 0, size = 1;
  int local_rank = -1, local_size = -1;  ///< on this host; -1: not said
  bool speaks_mpi = false;  ///< an MPI launcher or a Slurm step; else RANK and WORLD_SIZE alone, without MPI
};

/// Reads the innermost launcher's variables: Hydra, PMI and PMIx, Open MPI, PALS, a Slurm step, then RANK, WORLD_SIZE
/// and LOCAL_RANK of torchrun and Kubernetes. SLURM_NTASKS is not among them: a batch shell has it too. Throws
/// Error(unavailable) for values that are no numbers or contradict each other.
Launch read_launch();

}  // namespace cirrus::dist
