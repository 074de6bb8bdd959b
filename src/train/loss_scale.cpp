// Loss scaling through ATen's multi-tensor operators.
#include "train/loss_scale.h"

namespace cirrus::train {
namespace {

constexpr double kInitial = 65536, kGrowth = 2, kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;

}  // namespace

LossScale::LossScale(const at::Device& device)
    : scale_(at::full({1}, kInitial, at::TensorOptions(device).dtype(at::kFloat))),
      growth_(at::zeros({1}, at::TensorOptions(device).dtype(at::kInt))),
      overflow_(at::zeros({1}, at::TensorOptions(device).dtype(at::kFloat))) {}

at::Tensor LossScale::unscale(std::vector<at::Tensor>& gradients,
                              const std::function<void(const at::Tensor&)>& largest) {
  overflow_.zero_();
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, overflow_, scale_.reciprocal());
  if (largest) largest(overflow_);
  at::_amp_update_scale_(scale_, growth_, overflow_, kGrowth, kBackoff, kGrowthInterval);
  return overflow_;
}

at::Tensor LossScale::state() const { return at::cat({scale_, growth_.to(at::kFloat)}); }

void LossScale::restore(const at::Tensor& state) {
  scale_.copy_(state.narrow(0, 0, 1));
  growth_.copy_(state.narrow(0, 1, 1));
}

}  // namespace cirrus::train
