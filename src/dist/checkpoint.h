// Training checkpoints: a folder with the tensors of each rank and, written last, manifest.json. A folder without a
// manifest, or whose files do not match it, is no checkpoint. The manifest says where each range of each tensor lies,
// so that a reader needs to know nothing of the world that wrote it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "dist/tensor_file.h"
#include "dist/world.h"

namespace cirrus::dist {

struct Checkpoint {
  std::int64_t step = 0, samples = 0;
  std::string strategy = "none";
  std::string config_sha256;  ///< of what must not change between runs
  NamedTensors tensors;
  nlohmann::json state;  ///< anything else, small
};

/// Writes DIR/step-NNNNNNNN atomically enough that a kill at any time leaves the previous checkpoints whole; then
/// removes all but the newest `keep` (at least 1), what killed runs left unfinished, and checkpoints of later steps.
/// Returns the folder. Throws Error(cannot_create), Error(io).
std::filesystem::path save_checkpoint(const std::filesystem::path& dir, const Checkpoint& checkpoint,
                                      const World& world, int keep);

/// Reads one folder, checking every file against the manifest. Throws Error(bad_data) if it is damaged.
Checkpoint load_checkpoint(const std::filesystem::path& folder);

/// The newest whole checkpoint under DIR; damaged or unfinished ones are skipped with a warning that names the file.
/// Nullopt if there is none; throws Error(bad_data) if there are some and none can be read.
std::optional<Checkpoint> load_newest_checkpoint(const std::filesystem::path& dir);

}  // namespace cirrus::dist
