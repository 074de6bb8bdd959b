// The options every verb of every program has, registered by one call, and how many threads a process may use.
#pragma once

#include <cstdint>
#include <string>

namespace cirrus {

class Options;

struct RunOptions {
  bool overwrite = false;
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::string log;
  std::string device = "auto";
  std::int64_t threads = 0;  ///< 0: see resolve_threads()
  std::string dtype = "auto";
  std::int64_t seed = 0;
  bool strict = false;
  bool dry_run = false;
};

/// Registers them (groups Output and "Device and run"); once parsed, logging is set up accordingly.
void add_run_options(Options& options, RunOptions& run);

/// Threads of this process: `requested` if > 0, else SLURM_CPUS_PER_TASK, OMP_NUM_THREADS, else the cores this process
/// may use (affinity, control-group quota) divided by the ranks on this host. At least 1. Throws Error(config) for a
/// variable that is not a positive number.
int resolve_threads(std::int64_t requested);

/// Rank in the launcher's variables (PMI_RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID, RANK), or 0: enough to decide who
/// speaks.
int launcher_rank();

}  // namespace cirrus
