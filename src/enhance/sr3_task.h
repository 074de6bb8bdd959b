// The published SR3 training: whole images of synthetic sky in [-1, 1] beside their bicubic enlargement, one step of
// the schedule for a batch and a noise level of its own for each sample. Source: Saharia et al. 2021 (arXiv 2104.07636)
// as the published scaling study ran it.
#pragma once

#include "enhance/patch_task.h"

namespace cirrus::enhance {

struct Sr3Options : PatchOptions {
  diffusion::Sr3Config network;
  bool sketch = false;  ///< weights stay unset: to check and size a run
};

class Sr3Task : public PatchTask {
public:
  Sr3Task(const Sr3Options& options, device::Device& device, at::ScalarType dtype);

protected:
  FieldPool::Maker field_maker() const override;
  at::Tensor sigmas(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) const override;
  std::string kind() const override { return "sr3"; }
  nlohmann::json network_config() const override { return options_.network.to_json(); }
  nlohmann::json transform() const override;

private:
  const Sr3Options options_;
};

/// Noise levels sigma = sqrt(1 - g^2)/g of samples first .. first + count of a step's batch: one t in 1..2000 for the
/// step, g of each sample uniform between those of t and t - 1. float32 [count].
at::Tensor sr3_sigmas(std::uint64_t seed, std::int64_t step, std::int64_t first, std::int64_t count,
                      std::int64_t batch);

/// Image and condition of a synthetic field: planes [2, H, W], no scalars.
TrainingField make_image_field(const FieldOptions& options, std::uint64_t seed, std::uint64_t index);

}  // namespace cirrus::enhance
