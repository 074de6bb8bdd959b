// One map (or cube) of `cirrus enhance`: what the user asked for, the names of its outputs, the run.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/run_options.h"
#include "device/device.h"
#include "enhance/output.h"

namespace cirrus::app {

/// The flags of `cirrus enhance`.
struct EnhanceFlags {
  std::vector<std::string> inputs;
  std::string hdu, output, model, preset = "default", tile = "auto", overlap = "auto";
  std::int64_t plane = 0, steps = 16;
  enhance::ObservationChoice choice;
  enhance::EnhanceOptions options;
  bool all_planes = false, no_consistency = false, save_members = false, as_double = false, compress = false,
       no_png = false, drop_distortion = false;
};

struct EnhanceJob {
  std::string input, output;
  std::string picture;  ///< "": none
};

/// Names each input's outputs and checks that they can be made. Throws Error(cannot_create), also where two inputs have
/// one output.
std::vector<EnhanceJob> name_jobs(const EnhanceFlags& flags, const RunOptions& run);

/// What all jobs share.
struct EnhanceContext {
  enhance::Ranks& ranks;
  enhance::Model& model;
  const device::Device& device;
  at::ScalarType dtype;
  std::string command;  ///< for HISTORY
};

/// Enhances one input (or says what would be done), prints and returns what --json reports of it: on the lead; the
/// other ranks help. An error that leaves the other inputs alone is thrown by all ranks.
nlohmann::json run_enhance_job(const EnhanceJob& job, EnhanceFlags flags, const RunOptions& run,
                               const EnhanceContext& context);

}  // namespace cirrus::app
