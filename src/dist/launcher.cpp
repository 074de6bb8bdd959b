// The variables of launchers, innermost first: mpiexec inside a Slurm step leaves Slurm's in place.
#include "dist/launcher.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "base/errors.h"

namespace cirrus::dist {
namespace {

/// A variable's value as a number of at least `least`, or -1 if it is unset or empty.
int number(const char* name, int least) {
  const char* value = name == nullptr ? nullptr : std::getenv(name);
  if (value == nullptr || *value == 0) return -1;
  int n = 0;
  const auto [end, failure] = std::from_chars(value, value + std::strlen(value), n);
  if (failure != std::errc() || *end != 0 || n < least)
    throw Error(ExitCode::unavailable,
                std::string("The launcher's ") + name + " = '" + value + "' is not a number of " +
                    (least > 0 ? "processes" : "a process"),
                "unset it to run one process, or launch with mpiexec or srun");
  return n;
}

struct Kind {
  const char *launcher, *rank, *size, *local_rank, *local_size;
  bool speaks_mpi;
};
constexpr Kind kKinds[] = {
    {"mpiexec (Hydra)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true},
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    {"PALS", "PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", true},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, true},
    {"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
};

}  // namespace

Launch read_launch() {
  for (const Kind& kind : kKinds) {
    Launch launch;
    const int size = number(kind.size, 1);
    if (size < 0) continue;
    launch.launcher = kind.launcher;
    // Slurm's PMI-2 plug-in sets Hydra's names for rank and size, and its own for the rest.
    if (std::strcmp(kind.rank, "PMI_RANK") == 0 && std::getenv("MPI_LOCALRANKID") == nullptr &&
        std::getenv("SLURM_STEP_NUM_TASKS") != nullptr)
      launch.launcher = "srun --mpi=pmi2";
    if (std::strcmp(kind.rank, "SLURM_PROCID") == 0 && std::getenv("PMIX_RANK") != nullptr)
      launch.launcher = "srun --mpi=pmix";
    launch.size_variable = kind.size;
    launch.size = size;
    const int rank = number(kind.rank, 0);
    launch.rank = rank < 0 ? 0 : rank;
    launch.local_rank = number(kind.local_rank, 0);
    if (launch.launcher == "srun --mpi=pmi2") launch.local_rank = number("SLURM_LOCALID", 0);
    launch.local_size = number(kind.local_size, 1);
    launch.speaks_mpi = kind.speaks_mpi;
    if (launch.rank >= size || (launch.local_size > 0 && launch.local_rank >= launch.local_size))
      throw Error(ExitCode::unavailable,
                  std::string("The launcher's ") + kind.rank + " = " + std::to_string(launch.rank) + " does not fit " +
                      kind.size + " = " + std::to_string(size),
                  "unset them to run one process, or launch with mpiexec or srun");
    if (size == 1) return {};
    if (!launch.speaks_mpi && rank < 0)
      throw Error(ExitCode::unavailable, "WORLD_SIZE is " + std::to_string(size) + " but RANK is not set",
                  "set RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT too, as torchrun does, or launch with mpiexec");
    return launch;
  }
  return {};
}

}  // namespace cirrus::dist
