// What the trainer trains: a task turns sample numbers into a loss. Super-resolution is one task, fine-tuning another.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dist/activations.h"
#include "dist/unit.h"

namespace cirrus::train {

class Task {
public:
  virtual ~Task() = default;
  /// The model: its tensors as aliases, those that are trained requiring gradients. Names are unique and stable.
  virtual std::vector<dist::Unit> units() = 0;
  /// From now on units beyond the root run through `runner`; null: as they are.
  virtual void run_units_on(dist::UnitRunner* /*runner*/) {}
  /// Trained tensors each row of which (first dimension) is set to rms 1 after every update.
  virtual std::vector<std::string> unit_rows() { return {}; }
  /// What the device holds besides weights while a loss of `samples` samples and its gradients are computed, by units;
  /// empty: not known.
  virtual dist::ModelActivations activations(std::int64_t /*samples*/) const { return {}; }
  /// Bytes on the device of `samples` loaded samples.
  virtual double batch_bytes(std::int64_t /*samples*/) const { return 0; }
  /// Called before a step: data of that step must be at hand afterwards. May be called for any first step (resume);
  /// then steps follow each other. Returns early when a stop is requested (the trainer looks).
  virtual void begin_step(std::int64_t step) = 0;
  /// Puts on the device what the step needs: samples first .. first + count of its global batch of `batch`. Always the
  /// same shapes, into the same memory, so that a recorded step finds them.
  virtual void load(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) = 0;
  /// Mean loss of `count` of the loaded samples from number `begin` on. Queues work on the device and nothing else: no
  /// values are read, none are copied from the host, and shapes depend on `count` alone.
  virtual at::Tensor loss(std::int64_t begin, std::int64_t count) = 0;
  /// How many terms that mean runs over, where samples have unequal numbers of them (tokens). The step's loss is the
  /// mean over all terms of its global batch. -1: samples count alike.
  virtual double terms(std::int64_t /*begin*/, std::int64_t /*count*/) { return -1; }
  /// Called after each optimizer step, when weights have changed; under the same rule as loss().
  virtual void after_update() {}
  /// Metadata of the file of the trained model, which holds the averaged parameters under their names.
  virtual std::map<std::string, std::string> model_metadata(std::int64_t step, std::int64_t samples) = 0;
  /// What a checkpoint keeps of the task beside its parameters. The default keeps nothing.
  virtual nlohmann::json state() const;
  /// Called once before the first step: a new run (null) measures what it needs to know; a run that resumes takes it
  /// from the checkpoint's state(). Throws Error(bad_data) for a state that is none. The default does nothing.
  virtual void prepare(const nlohmann::json* state);
  /// What must be equal in a run that resumes.
  virtual std::string fingerprint() const = 0;
};

}  // namespace cirrus::train
