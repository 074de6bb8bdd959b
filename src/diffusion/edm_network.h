// The product's network: a magnitude-preserving convolutional U-Net without normalisation over space,
// EDM-preconditioned. Source: Karras et al. 2024 (arXiv 2312.02696), configuration G without attention; inputs and head
// are ours:
//  - the noisy residual enters as four band-passes, each divided by its expected rms at the noise level;
//  - space-to-depth 2 in front, depth-to-space behind; a linear head whose output is scaled by a gain that starts at
//  zero, plus
//    the four bands times gains that depend on the noise level.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>

#include "diffusion/denoiser.h"
#include "kernels/band_pass.h"
#include "kernels/packed_weights.h"

namespace cirrus::diffusion {

/// All that fixes the network's shape and its constants.
struct EdmConfig {
  std::vector<std::int64_t> widths{32, 64,
                                   96};  ///< channels by level, each level at half the resolution of the one before
  std::int64_t blocks = 1;               ///< encoder blocks, and decoder blocks, a level
  std::int64_t middle_blocks = 2;        ///< blocks at the coarsest level after its encoder
  std::int64_t embedding = 96;           ///< width of the noise-level embedding
  std::int64_t condition_maps = 3;
  std::int64_t condition_scalars = 4;
  std::array<double, kernels::kBands> band_rms{0.25, 0.25, 0.25, 0.25};  ///< rms of each band of the clean residual

  nlohmann::json to_json() const;
  static EdmConfig from_json(const nlohmann::json& json);  ///< throws Error(bad_data) on missing or impossible values
};

class EdmNetwork : public Denoiser {
public:
  /// Weights are N(0, 1), normalised, addressed by `seed`. `dtype`: compute type of the convolutions (float32 or
  /// bfloat16).
  EdmNetwork(const EdmConfig& config, std::uint64_t seed, const at::Device& device, at::ScalarType dtype);

  at::Tensor denoise(const at::Tensor& x, const at::Tensor& sigma, const Conditions& conditions) override;
  at::Tensor loss(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& sigma,
                  const Conditions& conditions) override;
  std::vector<NamedTensor> parameters() override;
  std::vector<std::string> unit_rows() const override;
  void weights_changed() override { prepared_ = false; }
  void after_update() override;
  void prepare_for_sampling(at::ScalarType dtype) override;
  std::int64_t alignment() const override;
  std::int64_t receptive_radius() const override;
  double flops(std::int64_t height, std::int64_t width) const override;
  dist::ModelActivations activations(std::int64_t samples, std::int64_t height, std::int64_t width,
                                     const at::Device& device) const override;
  std::int64_t condition_maps() const override { return config_.condition_maps; }
  std::int64_t condition_scalars() const override { return config_.condition_scalars; }

  const EdmConfig& config() const { return config_; }
  /// Replaces the configuration's band_rms.
  void set_band_rms(const std::array<double, kernels::kBands>& rms);

private:
  /// Indices into weights_ of a block's layers; -1 where there is none.
  struct Block {
    std::int64_t skip = -1, first = -1, second = -1;
    std::int64_t phases = -1;                 ///< of the coarse channels of `first`, in the decoder block that enlarges
    std::int64_t coarse = 0;                  ///< channels that come from the level below or the block before
    std::int64_t scale_begin = 0, width = 0;  ///< its slice of the embedding's scales
    bool encoder = true;
  };
  std::int64_t add_weight(const std::string& name, std::int64_t out, std::int64_t in, std::int64_t kernel,
                          std::int64_t level);
  Block add_block(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t level, bool encoder);
  std::vector<at::Tensor> raw_weights() const;
  void compute_weights(at::ScalarType dtype);
  at::Tensor convolve(const at::Tensor& x, std::int64_t weight) const;
  at::Tensor encode(const Block& block, const at::Tensor& x, const at::Tensor& scales) const;
  /// The first half of a decoder block. coarse: at the resolution of fine (the encoder's activations) or half of it.
  at::Tensor join(const Block& block, const at::Tensor& coarse, const at::Tensor& fine, const at::Tensor& scales) const;
  at::Tensor decode(const Block& block, const at::Tensor& coarse, const at::Tensor& fine,
                    const at::Tensor& scales) const;
  /// skip * x + out * F, with F of Eq. 7; skip, out: [N]. Returns [N, 1, H, W] float32.
  at::Tensor estimate(const at::Tensor& x, const at::Tensor& sigma, const at::Tensor& skip, const at::Tensor& out,
                      const Conditions& conditions);

  EdmConfig config_;
  std::uint64_t seed_;
  at::Device device_;
  at::ScalarType dtype_;
  std::vector<NamedTensor> weights_;  ///< weight-normalised layers
  std::vector<NamedTensor> gains_;    ///< plain parameters
  std::vector<at::Tensor>
      effective_;  ///< normalised weights of the current pass, then the decoder's phases by level (not on CPUs)
  bool prepared_ = false;
  kernels::PackedWeights packed_;  ///< of effective_, while prepared
  at::Tensor frequencies_, phases_, band_gain_rms2_, band_noise_gain2_;
  std::int64_t stem_ = -1, head_ = -1, embed_noise_ = -1, embed_scalars_ = -1, embed_scales_ = -1, embed_bands_ = -1;
  std::vector<std::vector<Block>> encoder_, decoder_;  ///< by level
  std::vector<Block> middle_;
  std::int64_t scales_ = 0;  ///< total of block widths
  double macs_per_pixel_ = 0;
  std::int64_t radius_ = 0;
};

}  // namespace cirrus::diffusion
