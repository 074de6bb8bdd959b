// The super-resolution task: residuals of synthetic skies, noise levels, and the network that learns to remove the
// noise.
#pragma once

#include "enhance/field_pool.h"
#include "enhance/model.h"
#include "train/task.h"

namespace cirrus::enhance {

struct DenoisingOptions {
  FieldOptions fields;
  FieldPool::Options pool;
  diffusion::EdmConfig network;       ///< band_rms is measured
  std::int64_t patch = 64;            ///< pixels a side; a multiple of the network's alignment
  double p_mean = -0.6, p_std = 1.4;  ///< ln sigma ~ N(p_mean, p_std^2) ...
  double tail_share = 0.12;           ///< ... but this share is log-uniform in `tail`: levels where sampling begins
  std::vector<double> tail{3, 80};
  std::int64_t calibration_fields = 256;
  std::string init;  ///< a model whose weights and constants this run starts from
  std::uint64_t seed = 0;
};

class DenoisingTask : public train::Task {
public:
  /// Builds the network, with the weights of `init` if there is one. prepare() gives the model its constants.
  DenoisingTask(const DenoisingOptions& options, const at::Device& device, at::ScalarType dtype);

  std::vector<std::pair<std::string, at::Tensor>> parameters() override;
  void begin_step(std::int64_t step) override;
  at::Tensor loss(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) override;
  void after_update() override { network_->after_update(); }
  void save_model(const std::string& path, const std::vector<at::Tensor>& averaged, std::int64_t step,
                  std::int64_t samples) override;
  nlohmann::json state() const override;
  void prepare(const nlohmann::json* state) override;
  std::string fingerprint() const override;

private:
  nlohmann::json description() const;

  const DenoisingOptions options_;
  const at::Device device_;
  ResidualScale scale_;
  std::unique_ptr<diffusion::EdmNetwork> network_;
  std::unique_ptr<FieldPool> pool_;
};

/// Noise levels of samples first .. first + count of a step's batch: stratified over the batch, so that each batch
/// covers the whole distribution. float32 [count].
at::Tensor training_sigmas(const DenoisingOptions& options, std::int64_t step, std::int64_t first, std::int64_t count,
                           std::int64_t batch);

}  // namespace cirrus::enhance
