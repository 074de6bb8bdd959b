// What a training run holds between steps: the spread model, optimizer, sums of losses; how it takes a step, and how it
// goes to and from a checkpoint. When to do what is the loop's business (trainer.cpp).
#pragma once

#include <filesystem>
#include <memory>
#include <utility>

#include "dist/checkpoint.h"
#include "train/trainer.h"

namespace cirrus::train {

/// A part of a batch or of its shares: `count` samples from `first` on.
struct Share {
  std::int64_t first = 0, count = 0;
};
/// Number `index` of `parts` nearly equal shares of `count` samples; the larger ones come first.
Share share_of(std::int64_t count, std::int64_t parts, std::int64_t index);

class Run {
public:
  Run(Task& task, device::Device& device, const TrainerOptions& options, const std::filesystem::path& out,
      const dist::World& world);
  ~Run();

  void restore(const dist::CheckpointReader& reader);
  /// Writes a checkpoint, and the averaged model and the curves as of this step. `last`: returns when all is on disk.
  void save(bool last);
  void write_results();
  /// Waits for a checkpoint that is being written. Throws what went wrong with it.
  void finish() { writer_.finish(); }
  /// One optimizer step: replayed where the device has recorded one, which it does once libraries are warm.
  void advance();
  /// What to say when a step does not fit into the device's memory: what would, by estimate.
  std::string what_fits() const;
  /// Mean loss since the last record, also across a stop, and the last step's gradient norm; waits for the device.
  std::pair<double, double> read();
  /// Throws before a broken state reaches a record or a checkpoint.
  void require_finite();

  dist::Parallel& parallel() { return *parallel_; }
  std::int64_t step() const { return step_; }
  std::int64_t samples() const { return samples_; }
  double save_seconds() const { return save_seconds_; }

private:
  void compute();
  double total_loss();
  void require_finite(double loss, double norm) const;
  std::string fingerprint() const;
  void say_unused();
  using Kinds = std::vector<std::pair<std::string, const std::vector<at::Tensor>*>>;
  Kinds kinds();

  Task& task_;
  device::Device& device_;
  const TrainerOptions& options_;
  const std::filesystem::path out_;
  const dist::World& world_;
  const Share share_;       ///< of every batch
  const double available_;  ///< bytes this rank had when the run began
  std::unique_ptr<dist::Parallel> parallel_;
  Optimizer optimizer_;
  std::optional<Combine> combine_;
  dist::CheckpointWriter writer_;
  std::vector<std::string> unit_rows_;
  at::Tensor losses_, norm_;  ///< on the device: sum of the losses that were not read yet, the last gradient norm
  std::unique_ptr<device::Graph> graph_;
  bool tried_ = false;  ///< to record a step
  bool said_unused_ = false;
  bool is_loaded_ = false;  ///< the step's samples, on the device
  double terms_ = -1;       ///< of the whole batch; -1: samples count alike
  double save_seconds_ = 0;
  std::int64_t eager_steps_ = 0, step_ = 0, samples_ = 0, recorded_ = 0;
};

}  // namespace cirrus::train
