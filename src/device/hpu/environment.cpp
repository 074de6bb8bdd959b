// What the Gaudi plug-in has to find in the environment.
#include "device/hpu/environment.h"

#include <array>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "base/errors.h"

namespace cirrus::device::hpu {
namespace {

/// Sets `name` to the first of `sources` that has a value, unless it has one itself.
void inherit(const char* name, const std::vector<const char*>& sources) {
  for (const char* source : sources)
    if (variable(name).empty() && !variable(source).empty()) setenv(name, variable(source).c_str(), 1);
}

}  // namespace

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool lazy_mode() { return variable("PT_HPU_LAZY_MODE") != "0"; }

void prepare_environment() {
  if (variable("PT_HPU_LAZY_MODE").empty()) setenv("PT_HPU_LAZY_MODE", "1", 1);
  inherit("WORLD_SIZE", {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"});
  inherit("RANK", {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
  inherit("LOCAL_RANK", {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"});
  inherit("ID", {"RANK"});

  const std::string modules = variable("HABANA_VISIBLE_MODULES"), rank = variable("LOCAL_RANK");
  if (!variable("HLS_MODULE_ID").empty() || modules.empty() || modules == "all") return;
  std::vector<std::string> entries;
  std::istringstream in(modules);
  for (std::string entry; std::getline(in, entry, ',');) entries.push_back(entry);
  const auto index = static_cast<std::size_t>(std::strtoul(rank.c_str(), nullptr, 10));
  if (index >= entries.size())
    throw Error(ExitCode::unavailable,
                "HABANA_VISIBLE_MODULES=" + modules + " names " + std::to_string(entries.size()) +
                    " card(s), and this process is local rank " + rank,
                "start one process a card, or list more cards");
  setenv("HLS_MODULE_ID", entries[index].c_str(), 1);
}

}  // namespace cirrus::device::hpu
