// The SR3 super-resolution U-Net of the published scaling study, exact to the parameter count, behind the same Denoiser
// as the product's network. Source: Saharia et al. 2021 (arXiv 2104.07636) in the widely used construction of
// Janspiry/Image-Super-Resolution-via-Iterative-Refinement: residual blocks of GroupNorm, swish and 3 x 3 convolutions,
// the noise level added to their channels, self-attention at one resolution. It sees the variance-preserving state
// g x (g = 1/sqrt(1 + sigma^2)) beside the condition and predicts the noise.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "diffusion/denoiser.h"
#include "kernels/packed_weights.h"

namespace cirrus::diffusion {

/// The published network: 64 x 64 to 256 x 256, 542,723,457 parameters in 564 tensors.
struct Sr3Config {
  std::int64_t inner = 128;                                 ///< channels of the first level
  std::vector<std::int64_t> multipliers{1, 2, 4, 4, 8, 8};  ///< channels of a level over `inner`
  std::int64_t blocks = 3;           ///< residual blocks a level on the way down; one more on the way up
  std::int64_t attention_level = 3;  ///< of which every block attends; the first middle block always does
  std::int64_t groups = 32;          ///< of GroupNorm
  double dropout = 0.2;

  nlohmann::json to_json() const;
  static Sr3Config from_json(const nlohmann::json& json);  ///< throws Error(bad_data) on missing or impossible values
};

/// Name, shape and role of each parameter, in order.
struct Sr3Parameter {
  enum class Role { weight, bias, scale };
  std::string name;
  std::vector<std::int64_t> shape;
  Role role;
};

class Sr3Network : public Denoiser {
public:
  enum class Weights { initial, unset };
  /// Initial weights are orthogonal, biases zero, addressed by `seed`, as dropout is; unset ones are left to the
  /// caller. `dtype`: type of the activations.
  Sr3Network(const Sr3Config& config, std::uint64_t seed, const at::Device& device, at::ScalarType dtype,
             Weights weights = Weights::initial);

  at::Tensor denoise(const at::Tensor& x, const at::Tensor& sigma, const Conditions& conditions) override;
  /// Mean of |noise - estimate|. Dropout acts where conditions.samples says which samples these are.
  at::Tensor loss(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& sigma,
                  const Conditions& conditions) override;
  std::vector<NamedTensor> parameters() override { return parameters_; }
  std::vector<dist::Unit> units() override;
  void run_units_on(dist::UnitRunner* runner) override { runner_ = runner; }
  void weights_changed() override { prepared_ = false; }
  void prepare_for_sampling(at::ScalarType dtype) override;
  std::int64_t alignment() const override { return std::int64_t{1} << (config_.multipliers.size() - 1); }
  std::int64_t receptive_radius() const override { return kWholeWindow; }
  double flops(std::int64_t height, std::int64_t width) const override;
  dist::ModelActivations activations(std::int64_t samples, std::int64_t height, std::int64_t width,
                                     const at::Device& device) const override;
  std::int64_t condition_maps() const override { return 1; }
  std::int64_t condition_scalars() const override { return 0; }

  const Sr3Config& config() const { return config_; }
  /// The parameters of a network without making it.
  static std::vector<Sr3Parameter> layout(const Sr3Config& config);

private:
  struct Plan;
  struct Block;
  /// The noise in `noisy` = g x; g: [N]. Returns [N, 1, H, W] in the activations' type.
  at::Tensor predict(const at::Tensor& noisy, const at::Tensor& g, const Conditions& conditions, bool drop);
  const at::Tensor& weight(std::int64_t index) const { return effective_[static_cast<std::size_t>(index)]; }
  const at::Tensor& raw(std::int64_t index) const { return parameters_[static_cast<std::size_t>(index)].tensor; }
  at::Tensor convolve(const at::Tensor& x, std::int64_t index, std::int64_t stride = 1) const;
  at::Tensor normalise(const at::Tensor& x, std::int64_t index, bool silu) const;
  at::Tensor apply(const Block& block, const at::Tensor& x, const at::Tensor& embedding,
                   const at::Tensor& samples) const;
  at::Tensor attend(const Block& block, const at::Tensor& x) const;
  /// Parameters [begin, end) in the activations' type.
  void cast_weights(at::ScalarType dtype, std::int64_t begin, std::int64_t end);
  /// work(inputs) as unit number `unit`, with its weights in the activations' type meanwhile.
  using Work = std::function<at::Tensor(const std::vector<at::Tensor>&)>;
  std::vector<std::string> unit_names() const;  ///< but for the root
  at::Tensor run(std::size_t unit, const std::vector<at::Tensor>& inputs, const Work& work);

  Sr3Config config_;
  std::uint64_t seed_;
  at::ScalarType dtype_;
  std::shared_ptr<const Plan> plan_;
  std::vector<NamedTensor> parameters_;
  std::vector<at::Tensor> effective_;  ///< parameters in the activations' type (those of GroupNorm stay float32)
  bool prepared_ = false;
  dist::UnitRunner* runner_ = nullptr;
  kernels::PackedWeights packed_;  ///< of effective_, while prepared
  at::Tensor frequencies_;
};

}  // namespace cirrus::diffusion
