// Training checkpoints: a folder with a file of each rank and, written last, manifest.json. A folder without a
// manifest, or whose files do not match it, is no checkpoint. The manifest says where each range of each tensor lies,
// so that any world and any strategy reads what another wrote.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "dist/parallel.h"
#include "dist/tensor_file.h"
#include "dist/world.h"

namespace cirrus::dist {

/// What a checkpoint says beside its tensors.
struct Checkpoint {
  std::int64_t step = 0, samples = 0;
  int world = 1;  ///< ranks that wrote it
  std::string strategy = "none";
  std::string config_sha256;  ///< of what must not change between runs
  nlohmann::json state;       ///< anything else, small
};

/// Elements [begin, begin + numel) of a tensor, in its memory order; any device.
struct Slice {
  std::string name;
  Parameter whole;  ///< shape, order and type of the whole tensor
  std::int64_t begin = 0;
  at::Tensor elements;
};
/// A whole tensor as one slice.
Slice whole_slice(const std::string& name, const at::Tensor& tensor);

/// Writes checkpoints while training goes on: save() copies the slices, a thread writes them.
class CheckpointWriter {
public:
  /// Into DIR/step-NNNNNNNN, which all ranks must see; keeps the newest `keep` (at least 1). All ranks make one.
  CheckpointWriter(std::filesystem::path dir, const World& world, int keep);
  /// Waits for the write under way.
  ~CheckpointWriter();

  /// Begins to write. `slices` of all ranks together cover every element once. With `in_background`, returns when this
  /// rank's slices are copied, else when all is on disk. A kill at any time leaves the previous checkpoints whole; once
  /// written, older ones beyond `keep`, what killed runs left unfinished, and checkpoints of later steps are removed.
  /// All ranks call it. Throws Error(cannot_create), Error(io), also for the write before.
  void save(const Checkpoint& checkpoint, const std::vector<Slice>& slices, bool in_background);
  /// Waits for the write under way, on all ranks. Throws as save().
  void finish();
  /// Seconds the last write took.
  double last_seconds() const { return seconds_; }

private:
  struct Job;
  void write(const Job& job);
  void commit(const Job& job, nlohmann::json manifest);

  const std::filesystem::path dir_;
  const World world_;
  const int keep_;
  std::uint64_t number_ = 0;
  std::thread thread_;
  std::exception_ptr error_;
  double seconds_ = 0;
};

/// A checkpoint that has been found whole.
class CheckpointReader {
public:
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const std::filesystem::path& folder() const { return folder_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Fills `elements` [n] (any device) with those from `begin` on of a tensor, counted in the order of `like`. Reads no
  /// more than that, unless it was written in another order. Throws Error(bad_data) if the tensor is missing or of
  /// another shape.
  void read(const std::string& name, const Parameter& like, std::int64_t begin, const at::Tensor& elements) const;
  /// A whole tensor, on the host.
  at::Tensor read(const std::string& name) const;
  std::vector<std::string> names() const;

private:
  friend std::optional<CheckpointReader> find_checkpoint(const std::filesystem::path&, const World&);
  struct Part {
    std::string file;
    std::uint64_t offset = 0;
    std::int64_t begin = 0, end = 0;
  };
  struct Tensor {
    Parameter whole;
    std::vector<Part> parts;  ///< in order, covering all elements
  };
  explicit CheckpointReader(const std::filesystem::path& folder);
  const Tensor& tensor(const std::string& name) const;
  void read_range(const Tensor& tensor, std::int64_t begin, const at::Tensor& elements) const;
  Tensor parse_tensor(const nlohmann::json& entry, const std::string& where) const;
  /// Checks the sha256 of every `size`-th file from number `rank` on.
  void verify(int rank, int size) const;

  std::filesystem::path folder_;
  Checkpoint checkpoint_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::pair<std::uint64_t, std::string>> files_;  ///< bytes and sha256
};

/// The newest whole checkpoint under DIR; damaged or unfinished ones are skipped with a warning that names the file.
/// Nullopt if there is none; throws Error(bad_data) if there are some and none can be read. All ranks call it, and
/// share the checking.
std::optional<CheckpointReader> find_checkpoint(const std::filesystem::path& dir, const World& world);

/// Folders step-N under dir with their N, newest first.
std::vector<std::pair<std::int64_t, std::filesystem::path>> step_folders(const std::filesystem::path& dir);

inline constexpr const char* kCheckpointFormat = "cirrus-checkpoint/1";
inline constexpr const char* kManifest = "manifest.json";

}  // namespace cirrus::dist
