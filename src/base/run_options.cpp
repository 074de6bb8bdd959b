// Registration of the shared options and the thread count; see run_options.h.
#include "base/run_options.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/errors.h"
#include "base/log.h"
#include "base/options.h"

namespace cirrus {
namespace {

/// The number a variable starts with: OMP_NUM_THREADS may be a list by nesting level ("4,2").
std::optional<std::int64_t> leading_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool rest_fits = end == text.data() + text.size() || *end == ',' || *end == '(';
  return failure == std::errc() && rest_fits ? std::optional(number) : std::nullopt;
}

/// The first of these variables that is set, as a positive number; 0 if none is.
std::int64_t positive_number_from(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::optional<std::int64_t> number = leading_number(value);
    if (number && *number > 0) return *number;
    throw Error(ExitCode::config,
                std::string("environment variable ") + variable + " = " + value + " is not a positive number");
  }
  return 0;
}

/// Cores by affinity, lowered by the control group's quota (a Pod's CPU limit leaves the affinity alone).
std::int64_t usable_cores() {
  cpu_set_t set;
  std::int64_t cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  std::ifstream quota_file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (quota_file >> quota >> period && quota > 0 && period > 0) {  // "max 100000" fails to read: no limit
    cores = std::min(cores, static_cast<std::int64_t>(quota / period + 0.999));
  }
  return std::max<std::int64_t>(cores, 1);
}

}  // namespace

void add_run_options(Options& options, RunOptions& run) {
  options.group("Output");
  options.add("overwrite", run.overwrite, "replace outputs that exist").flag_only();
  options.add("json", run.json, "one JSON object on stdout, nothing else there");
  options.add("quiet", run.quiet, "results, warnings and errors only").short_flag('q');
  options.add("verbose", run.verbose, "more messages").short_flag('v');
  options.add("log", run.log, "also write messages and results to this file").metavar("FILE");
  options.group("Device and run");
  options.add("device", run.device, "auto, cpu, cuda, cuda:N or hpu").check([&run] {
    const std::string &d = run.device, kind = d.substr(0, d.find(':'));
    const bool known = kind == "cpu" || kind == "cuda" || kind == "hpu",
               number =
                   kind.size() == d.size() || (kind.size() + 1 < d.size() &&
                                               d.find_first_not_of("0123456789", kind.size() + 1) == std::string::npos);
    return d == "auto" || (known && number) ? "" : "not one of auto, cpu, cuda, cuda:N, hpu";
  });
  options.add("threads", run.threads, "CPU threads")
      .metavar("N")
      .range(0, 4096)
      .default_text("SLURM_CPUS_PER_TASK, OMP_NUM_THREADS, then the cores of this process by local ranks");
  options.add("dtype", run.dtype, "arithmetic of the networks").one_of({"auto", "fp32", "bf16", "fp16"});
  options.add("seed", run.seed, "seed of all random numbers").metavar("N").range(0);
  options.add("strict", run.strict, "warnings become errors");
  options.add("dry_run", run.dry_run, "say what would be read and made, and how large; compute nothing").flag_only();
  options.when_parsed([&run] { log::configure({run.quiet, run.verbose, run.json, run.strict, run.log}); });
}

int resolve_threads(std::int64_t requested) {
  if (requested > 0) return static_cast<int>(requested);
  const std::int64_t told = positive_number_from({"SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"});
  if (told > 0) return static_cast<int>(told);
  const std::int64_t ranks = positive_number_from(
      {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE"});
  return static_cast<int>(std::max<std::int64_t>(usable_cores() / std::max<std::int64_t>(ranks, 1), 1));
}

int launcher_rank() {
  for (const char* variable : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "RANK"}) {
    const char* value = std::getenv(variable);
    const std::optional<std::int64_t> rank = value == nullptr ? std::nullopt : leading_number(value);
    if (rank && *rank >= 0) return static_cast<int>(*rank);
  }
  return 0;
}

}  // namespace cirrus
