// What the training tasks of super-resolution share: batches of patches cut from a pool of synthetic fields, noise
// addressed by sample, and the files of a model. Which network, which fields and which noise levels: the tasks below it
// (training_task.h for `edm`, sr3_task.h for `sr3`).
#pragma once

#include "enhance/field_pool.h"
#include "enhance/model.h"
#include "train/task.h"

namespace cirrus::enhance {

struct PatchOptions {
  FieldOptions fields;
  FieldPool::Options pool;
  std::int64_t patch = 64;  ///< pixels of a sample a side; a multiple of the network's alignment
  bool augment = true;      ///< each sample in one of the eight symmetries of the square
  std::string init;         ///< a model whose weights and constants this run starts from
  std::uint64_t seed = 0;
};

class PatchTask : public train::Task {
public:
  /// Before the first step: fields are made by the ranks of the world together. All of them call it.
  void share_fields(const dist::World& world) { sharing_ = std::make_unique<FieldSharing>(world); }
  std::vector<dist::Unit> units() override { return network_->units(); }
  void run_units_on(dist::UnitRunner* runner) override { network_->run_units_on(runner); }
  std::vector<std::string> unit_rows() override { return network_->unit_rows(); }
  dist::ModelActivations activations(std::int64_t samples) const override;
  double batch_bytes(std::int64_t samples) const override;
  void begin_step(std::int64_t step) override;
  void load(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) override;
  at::Tensor loss(std::int64_t begin, std::int64_t count) override;
  void after_update() override { network_->weights_changed(); }
  std::map<std::string, std::string> model_metadata(std::int64_t step, std::int64_t samples) override;
  std::string fingerprint() const override;

protected:
  PatchTask(const PatchOptions& options, device::Device& device, std::unique_ptr<diffusion::Denoiser> network);
  /// Makes field number i; called from several threads, also after this object is gone.
  virtual FieldPool::Maker field_maker() const = 0;
  /// Noise levels of samples first .. first + count of a step's batch; float32 [count] on the host.
  virtual at::Tensor sigmas(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) const = 0;
  /// How the model is trained: for its card, and for what must be equal in a run that resumes.
  virtual nlohmann::json description() const;
  virtual std::string kind() const = 0;               ///< of network
  virtual nlohmann::json network_config() const = 0;  ///< of its card
  virtual nlohmann::json network_identity() const {
    return network_config();
  }                                              ///< that of it which must be equal in a run that resumes
  virtual nlohmann::json transform() const = 0;  ///< of its card

  diffusion::Denoiser& network() { return *network_; }

private:
  const PatchOptions options_;
  device::Device& device_;
  std::unique_ptr<diffusion::Denoiser> network_;
  at::Tensor planes_, scalars_, noise_, sigma_;  ///< the loaded batch, on the device
  at::Tensor samples_;                           ///< their numbers, where dropout wants them
  std::unique_ptr<FieldSharing> sharing_;
  std::unique_ptr<FieldPool> pool_;
};

}  // namespace cirrus::enhance
