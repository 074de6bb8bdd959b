// The product's training task: residuals of synthetic skies over their Wiener upsample, noise levels, and the network
// that learns to remove the noise.
#pragma once

#include "enhance/patch_task.h"

namespace cirrus::enhance {

struct DenoisingOptions : PatchOptions {
  diffusion::EdmConfig network;       ///< band_rms is measured
  double p_mean = -0.6, p_std = 1.4;  ///< ln sigma ~ N(p_mean, p_std^2) ...
  double tail_share = 0.12;           ///< ... but this share is log-uniform in `tail`: levels where sampling begins
  std::vector<double> tail{3, 80};
  std::int64_t calibration_fields = 256;
};

class DenoisingTask : public PatchTask {
public:
  /// Builds the network, with the weights of `init` if there is one. prepare() gives the model its constants.
  DenoisingTask(const DenoisingOptions& options, device::Device& device, at::ScalarType dtype);

  nlohmann::json state() const override;
  void prepare(const nlohmann::json* state) override;

protected:
  FieldPool::Maker field_maker() const override;
  at::Tensor sigmas(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) const override;
  nlohmann::json description() const override;
  std::string kind() const override { return "edm"; }
  nlohmann::json network_config() const override;
  nlohmann::json network_identity() const override;
  nlohmann::json transform() const override;

private:
  const DenoisingOptions options_;
  diffusion::EdmNetwork& edm_;  ///< the base class owns it
  ResidualScale scale_;
};

/// Noise levels of samples first .. first + count of a step's batch: stratified over the batch, so that each batch
/// covers the whole distribution. float32 [count].
at::Tensor training_sigmas(const DenoisingOptions& options, std::int64_t step, std::int64_t first, std::int64_t count,
                           std::int64_t batch);

}  // namespace cirrus::enhance
