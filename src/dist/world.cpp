// Joins the world a launcher made. Only this file names MPI.
#include "dist/world.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/errors.h"

#ifdef CIRRUS_HAVE_MPI
#include <mpi.h>
#endif

namespace cirrus::dist {
namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

/// How many processes the launcher says it started: Hydra and PMI, Open MPI, a Slurm step. The innermost launcher
/// stands first: mpiexec inside a Slurm step leaves Slurm's variables in place.
int launched_size() {
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    int size = 0;
    const auto [end, failure] = std::from_chars(value, value + std::strlen(value), size);
    if (failure != std::errc() || *end != 0 || size < 1)
      throw Error(ExitCode::unavailable,
                  std::string("The launcher's ") + name + " = '" + value + "' is not a number of processes",
                  "unset it to run one process, or launch with mpiexec or srun");
    return size;
  }
  return 1;
}

}  // namespace

World join_world() {
  World world;
  world.host = host_name();
  world.launcher = "none";
  const int expected = launched_size();
  if (expected <= 1) return world;
#ifdef CIRRUS_HAVE_MPI
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  std::atexit(leave_world);  // also when an error ends the program: a launcher takes an exit without it for a crash
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  MPI_Comm local;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL, &local);
  MPI_Comm_rank(local, &world.local_rank);
  MPI_Comm_size(local, &world.local_size);
  MPI_Comm_free(&local);
  world.launcher = "mpi";
  if (world.size != expected)
    throw Error(ExitCode::unavailable,
                "The launcher started " + std::to_string(expected) + " processes but MPI sees a world of " +
                    std::to_string(world.size),
                "launch with the mpiexec of the MPI that Cirrus was built with");
  return world;
#else
  throw Error(ExitCode::unavailable,
              "The launcher started " + std::to_string(expected) + " processes but this build has no MPI",
              "configure with -DCIRRUS_MPI=ON, or run one process");
#endif
}

void leave_world() {
#ifdef CIRRUS_HAVE_MPI
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized != 0 && finalized == 0) MPI_Finalize();
#endif
}

void require_single(const World& world, const std::string& what) {
  if (world.size > 1)
    throw Error(ExitCode::unavailable,
                what + " runs in one process in this version, and the launcher started " + std::to_string(world.size),
                "start it without mpiexec or srun -n; it uses all cores of the machine");
}

}  // namespace cirrus::dist
