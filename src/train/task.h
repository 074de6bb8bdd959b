// What the trainer trains: a task turns sample numbers into a loss. Super-resolution is one task, fine-tuning another.
#pragma once

#include <ATen/ATen.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace cirrus::train {

class Task {
public:
  virtual ~Task() = default;
  /// Trained parameters, as aliases that require gradients. Names are unique and stable.
  virtual std::vector<std::pair<std::string, at::Tensor>> parameters() = 0;
  /// Called before a step: data of that step must be at hand afterwards. May be called for any first step (resume);
  /// then steps follow each other. Returns early when a stop is requested (the trainer looks).
  virtual void begin_step(std::int64_t step) = 0;
  /// Puts on the device what the step needs: samples first .. first + count of its global batch of `batch`. Always the
  /// same shapes, into the same memory, so that a recorded step finds them.
  virtual void load(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) = 0;
  /// Mean loss of `count` of the loaded samples from number `begin` on. Queues work on the device and nothing else: no
  /// values are read, none are copied from the host, and shapes depend on `count` alone.
  virtual at::Tensor loss(std::int64_t begin, std::int64_t count) = 0;
  /// Called after each optimizer step; under the same rule.
  virtual void after_update() = 0;
  /// Writes the result (averaged parameters in the order of parameters()) to a file.
  virtual void save_model(const std::string& path, const std::vector<at::Tensor>& averaged, std::int64_t step,
                          std::int64_t samples) = 0;
  /// What a checkpoint keeps of the task beside its parameters. The default keeps nothing.
  virtual nlohmann::json state() const;
  /// Called once before the first step: a new run (null) measures what it needs to know; a run that resumes takes it
  /// from the checkpoint's state(). Throws Error(bad_data) for a state that is none. The default does nothing.
  virtual void prepare(const nlohmann::json* state);
  /// What must be equal in a run that resumes.
  virtual std::string fingerprint() const = 0;
};

}  // namespace cirrus::train
