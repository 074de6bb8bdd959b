// The one training loop: steps, checkpoints, records, orderly stops. Knows nothing of what is trained.
#pragma once

#include <filesystem>
#include <string>

#include "device/device.h"
#include "dist/parallel.h"
#include "train/optimizer.h"
#include "train/task.h"

namespace cirrus::train {

struct TrainerOptions {
  std::int64_t steps = 1000;
  std::int64_t batch = 16;        ///< samples of an optimizer step, of all ranks together
  std::int64_t accumulation = 1;  ///< parts a batch is split into, to save memory
  OptimizerOptions optimizer;
  dist::ParallelOptions parallel;
  at::ScalarType compute = at::kFloat;   ///< of the task's activations; float16 has its losses scaled
  bool capture = true;                   ///< record a step and replay it where the device can
  double checkpoint_minutes = 10;        ///< between checkpoints, wall time
  std::int64_t checkpoint_steps = 0;     ///< also every so many steps; 0: by time alone
  int keep = 2;                          ///< checkpoints kept
  bool checkpoint_in_background = true;  ///< training goes on while one is written, where memory holds its copy
  std::int64_t record_steps = 50;        ///< steps between lines of train.jsonl
  double time_limit = 0;                 ///< seconds of wall time of this run; 0: none
  std::string config;                    ///< kept as config.toml in the run's folder, once a checkpoint is accepted
};

/// Throws Error(config) for options that contradict each other or the world.
void check_options(const TrainerOptions& options, const dist::World& world);

enum class Outcome { finished, stopped };

/// Trains into `out`: out/checkpoints/step-NNNNNNNN, out/train.jsonl, out/curves.svg, out/model.safetensors (averaged
/// weights; also refreshed at each checkpoint). With `resume`, goes on from the newest whole checkpoint, of whatever
/// world and strategy. SIGTERM, SIGUSR1 or SIGINT to any rank, a file out/stop and the time limit end it with a
/// checkpoint (Outcome::stopped), on all ranks after the same step. Each rank computes its share of every batch: what
/// is trained does not depend on their number but for rounding. All ranks call it. Throws Error(internal) if loss or
/// gradient stop being finite.
Outcome run_training(Task& task, device::Device& device, const dist::World& world, const TrainerOptions& options,
                     const std::filesystem::path& out, bool resume);

}  // namespace cirrus::train
