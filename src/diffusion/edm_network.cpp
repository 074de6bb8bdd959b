// The magnitude-preserving U-Net: construction, forward pass, loss.
#include "diffusion/edm_network.h"

#include <c10/core/GradMode.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/random.h"
#include "diffusion/preconditioning.h"
#include "kernels/activation.h"
#include "kernels/convolution.h"
#include "kernels/join.h"
#include "kernels/memory.h"
#include "kernels/phase_join.h"
#include "kernels/space_to_depth.h"
#include "kernels/weight_norm.h"

namespace cirrus::diffusion {
namespace {

constexpr std::int64_t kStem = 2;         // space-to-depth factor
constexpr double kResidualBalance = 0.3;  // t of mp_sum in a block (EDM2's default)
constexpr std::int64_t kFourierFeatures = 64;

/// N(0, 1) values addressed by the tensor's place in the network, so that they do not depend on the order of
/// construction.
at::Tensor addressed_normal(at::IntArrayRef shape, std::uint64_t seed, std::uint64_t item) {
  Stream stream(Address(seed, Purpose::weights, item));
  at::Tensor out = at::empty(shape, at::kFloat);
  float* p = out.data_ptr<float>();
  for (std::int64_t i = 0; i < out.numel(); ++i) p[i] = static_cast<float>(stream.normal());
  return out;
}

}  // namespace

nlohmann::json EdmConfig::to_json() const {
  return {{"widths", widths},
          {"blocks", blocks},
          {"middle_blocks", middle_blocks},
          {"embedding", embedding},
          {"condition_maps", condition_maps},
          {"condition_scalars", condition_scalars},
          {"band_rms", band_rms}};
}

EdmConfig EdmConfig::from_json(const nlohmann::json& json) {
  EdmConfig c;
  const auto refuse = [](const std::string& key, const std::string& found) {
    throw Error(ExitCode::bad_data,
                "The network's configuration is not one of an edm network: " + key + " is " + found);
  };
  const auto whole = [&](const nlohmann::json& v, const std::string& key, std::int64_t low, std::int64_t high) {
    if (!v.is_number_integer() || v < low || v > high) refuse(key, v.dump());
    return v.get<std::int64_t>();
  };
  try {
    const nlohmann::json &widths = json.at("widths"), &rms = json.at("band_rms");
    if (!widths.is_array() || widths.empty() || widths.size() > 8) refuse("widths", widths.dump());
    c.widths.clear();
    for (const nlohmann::json& w : widths) c.widths.push_back(whole(w, "widths", 1, 4096));
    c.blocks = whole(json.at("blocks"), "blocks", 1, 64);
    c.middle_blocks = whole(json.at("middle_blocks"), "middle_blocks", 0, 64);
    c.embedding = whole(json.at("embedding"), "embedding", 1, 4096);
    c.condition_maps = whole(json.at("condition_maps"), "condition_maps", 0, 64);
    c.condition_scalars = whole(json.at("condition_scalars"), "condition_scalars", 0, 64);
    if (!rms.is_array() || rms.size() != kernels::kBands) refuse("band_rms", rms.dump());
    for (std::size_t b = 0; b < kernels::kBands; ++b) {
      if (!rms[b].is_number() || !(rms[b] > 0.0) || !std::isfinite(rms[b].get<double>()))
        refuse("band_rms", rms.dump());
      c.band_rms[b] = rms[b];
    }
  } catch (const nlohmann::json::exception& e) {
    throw Error(ExitCode::bad_data,
                std::string("The network's configuration is not one of an edm network: ") + e.what());
  }
  return c;
}

EdmNetwork::EdmNetwork(const EdmConfig& config, std::uint64_t seed, const at::Device& device, at::ScalarType dtype)
    : config_(config), seed_(seed), device_(device), dtype_(dtype) {
  if (device.is_cpu()) kernels::keep_freed_memory();
  const std::int64_t levels = static_cast<std::int64_t>(config.widths.size());
  // Four bands, the conditions, and a channel of ones that serves as a bias.
  const std::int64_t input = (kernels::kBands + config.condition_maps + 1) * kStem * kStem;
  stem_ = add_weight("stem", config.widths[0], input, 3, 0);
  std::int64_t width = config.widths[0];
  for (std::int64_t level = 0; level < levels; ++level) {
    auto& blocks = encoder_.emplace_back();
    for (std::int64_t b = 0; b < config.blocks; ++b) {
      const std::int64_t out = config.widths[static_cast<std::size_t>(level)];
      blocks.push_back(
          add_block("encoder." + std::to_string(level) + "." + std::to_string(b), width, out, level, true));
      width = out;
    }
  }
  for (std::int64_t b = 0; b < config.middle_blocks; ++b)
    middle_.push_back(add_block("middle." + std::to_string(b), width, width, levels - 1, true));
  decoder_.resize(static_cast<std::size_t>(levels - 1));
  for (std::int64_t level = levels - 2; level >= 0; --level) {
    const std::int64_t out = config.widths[static_cast<std::size_t>(level)];
    for (std::int64_t b = config.blocks - 1; b >= 0; --b) {
      const std::string name = "decoder." + std::to_string(level) + "." + std::to_string(b);
      auto& blocks = decoder_[static_cast<std::size_t>(level)];
      blocks.push_back(add_block(name, width + out, out, level, false));
      blocks.back().coarse = width;
      width = out;
    }
  }
  head_ = add_weight("head", kStem * kStem, config.widths[0], 3, 0);
  embed_noise_ = add_weight("embed.noise", config.embedding, kFourierFeatures, 0, 0);
  if (config.condition_scalars > 0)
    embed_scalars_ = add_weight("embed.scalars", config.embedding, config.condition_scalars + 1, 0, 0);
  embed_scales_ = add_weight("embed.scales", scales_, config.embedding, 0, 0);
  embed_bands_ = add_weight("embed.bands", kernels::kBands, config.embedding, 0, 0);
  for (std::size_t level = 0; level < decoder_.size(); ++level)  // as compute_weights() puts them
    decoder_[level].front().phases = static_cast<std::int64_t>(weights_.size() + level);
  for (const auto& [name, n] : {std::pair<const char*, std::int64_t>{"gain.head", 1},
                                {"gain.scales", scales_},
                                {"gain.bands", kernels::kBands}})
    gains_.push_back({name, at::zeros({n}, at::TensorOptions(device).dtype(at::kFloat))});

  // The Fourier features are constants of the architecture, not parameters: the same whatever seeds the weights.
  frequencies_ = (2 * M_PI * addressed_normal({kFourierFeatures}, 0, 1'000'001)).to(device);
  Stream phases(Address(0, Purpose::weights, 1'000'002));
  std::vector<float> phase;
  for (std::int64_t i = 0; i < kFourierFeatures; ++i) phase.push_back(static_cast<float>(2 * M_PI * phases.uniform()));
  phases_ = at::tensor(phase).to(device);
  std::vector<float> noise2;
  for (const double gain : kernels::band_noise_gains()) noise2.push_back(static_cast<float>(gain * gain));
  band_noise_gain2_ = at::tensor(noise2).to(device);
  set_band_rms(config.band_rms);
  // Pooling and repetition shift by up to one pixel of the coarsest level.
  radius_ += kernels::band_reach() + alignment();
  radius_ = (radius_ + alignment() - 1) / alignment() * alignment();
}

void EdmNetwork::set_band_rms(const std::array<double, kernels::kBands>& rms) {
  config_.band_rms = rms;
  std::vector<float> rms2;
  for (const double r : rms) rms2.push_back(static_cast<float>(r * r));
  band_gain_rms2_ = at::tensor(rms2).to(device_);
}

std::int64_t EdmNetwork::add_weight(const std::string& name, std::int64_t out, std::int64_t in, std::int64_t kernel,
                                    std::int64_t level) {
  const std::int64_t index = static_cast<std::int64_t>(weights_.size());
  at::Tensor w = kernel == 0 ? addressed_normal({out, in}, seed_, static_cast<std::uint64_t>(index))
                             : addressed_normal({out, in, kernel, kernel}, seed_, static_cast<std::uint64_t>(index))
                                   .contiguous(at::MemoryFormat::ChannelsLast);
  weights_.push_back({name, w.to(device_)});
  if (kernel > 0) {
    const std::int64_t stride = kStem << level;
    macs_per_pixel_ += static_cast<double>(out * in * kernel * kernel) / static_cast<double>(stride * stride);
    radius_ += kernel / 2 * stride;
  }
  return index;
}

EdmNetwork::Block EdmNetwork::add_block(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t level,
                                        bool encoder) {
  Block b;
  b.encoder = encoder;
  if (in != out) b.skip = add_weight(name + ".skip", out, in, 1, level);
  b.first = add_weight(name + ".first", out, encoder ? out : in, 3, level);
  b.second = add_weight(name + ".second", out, out, 3, level);
  b.scale_begin = scales_;
  b.width = out;
  scales_ += out;
  return b;
}

at::Tensor EdmNetwork::convolve(const at::Tensor& x, std::int64_t weight) const {
  const at::Tensor& w = effective_[static_cast<std::size_t>(weight)];
  return w.size(2) == 3 ? kernels::convolve_3x3(x, w) : kernels::convolve(x, w);
}

at::Tensor EdmNetwork::encode(const Block& block, const at::Tensor& x, const at::Tensor& scales) const {
  const auto [trunk, activated] = kernels::pixel_norm_act(block.skip < 0 ? x : convolve(x, block.skip));
  const at::Tensor y =
      kernels::scale_act(convolve(activated, block.first), scales.narrow(1, block.scale_begin, block.width));
  const at::Tensor& w = effective_[static_cast<std::size_t>(block.second)];
  if (!kernels::adds_while_convolving(y, w)) return kernels::mp_sum(trunk, convolve(y, block.second), kResidualBalance);
  const auto [trunk_weight, residual] = kernels::sum_weights(kResidualBalance);
  return kernels::convolve_3x3(y, w, {.other = trunk, .scale = residual, .other_scale = trunk_weight});
}

at::Tensor EdmNetwork::join(const Block& block, const at::Tensor& coarse, const at::Tensor& fine,
                            const at::Tensor& scales) const {
  const at::Tensor mine = scales.narrow(1, block.scale_begin, block.width);
  if (coarse.size(2) == fine.size(2))
    return kernels::scale_act(convolve(kernels::upsample_cat_act(coarse, fine), block.first), mine);
  // The convolution of a concatenation is a sum of two, and that of repeated pixels one of the pixels.
  const std::int64_t ca = coarse.size(1), cb = fine.size(1);
  const auto [wa, wb] = kernels::cat_weights(ca, cb);
  const auto activated = [](const at::Tensor& x, double gain) {
    return kernels::scale_act(x, at::full({x.size(0), x.size(1)}, gain, x.options().dtype(at::kFloat)));
  };
  const at::Tensor& w = effective_[static_cast<std::size_t>(block.first)];
  const at::Tensor a = activated(coarse, wa), b = activated(fine, wb), of_a = w.narrow(1, 0, ca);
  const at::Tensor y = kernels::convolve_3x3(b, w.narrow(1, ca, cb));
  if (kernels::adds_while_convolving(a, of_a, true))
    return kernels::scale_act(kernels::convolve_3x3_enlarged(a, of_a, {.other = y}), mine);
  const at::Tensor phases = device_.is_cpu() ? kernels::phase_weights(of_a, w.scalar_type())
                                             : effective_[static_cast<std::size_t>(block.phases)];
  return kernels::phase_sum_scale_act(kernels::convolve(a, phases), y, mine);
}

at::Tensor EdmNetwork::decode(const Block& block, const at::Tensor& coarse, const at::Tensor& fine,
                              const at::Tensor& scales) const {
  const at::Tensor y = convolve(join(block, coarse, fine, scales), block.second);
  const std::int64_t ca = coarse.size(1), cb = fine.size(1);
  const at::Tensor& skip = effective_[static_cast<std::size_t>(block.skip)];
  const auto [wa, wb] = kernels::cat_weights(ca, cb);
  const auto [trunk, residual] = kernels::sum_weights(kResidualBalance);
  return kernels::upsample_sum(kernels::convolve(coarse, skip.narrow(1, 0, ca)),
                               kernels::convolve(fine, skip.narrow(1, ca, cb)), y, {trunk * wa, trunk * wb, residual});
}

at::Tensor EdmNetwork::estimate(const at::Tensor& x, const at::Tensor& sigma, const at::Tensor& skip,
                                const at::Tensor& out, const Conditions& conditions) {
  if (!prepared_) compute_weights(dtype_);
  const kernels::UsePackedWeights use(prepared_ ? &packed_ : nullptr);
  const auto linear = [&](const at::Tensor& v, std::int64_t w) {
    return at::matmul(v, effective_[static_cast<std::size_t>(w)].to(v.scalar_type()).t());
  };

  // Embedding of the noise level and of what is known of the observation.
  const at::Tensor c_noise = sigma.log() / 4;
  const at::Tensor fourier = std::sqrt(2.0) * (c_noise.unsqueeze(1) * frequencies_ + phases_).cos();
  at::Tensor e = linear(fourier, embed_noise_);
  if (embed_scalars_ >= 0) {
    const at::Tensor with_bias =
        at::cat({conditions.scalars, at::ones({conditions.scalars.size(0), 1}, conditions.scalars.options())}, 1);
    e = kernels::reference::mp_sum(e, linear(with_bias, embed_scalars_), 0.5);
  }
  e = kernels::reference::act(e);
  const at::Tensor scales = 1 + linear(e, embed_scales_) * gains_[1].tensor;
  const at::Tensor band_gains = linear(e, embed_bands_) * gains_[2].tensor;

  // Inputs: bands at unit rms, conditions, ones.
  const at::Tensor c_in = (band_gain_rms2_ + sigma.square().unsqueeze(1) * band_noise_gain2_).rsqrt();
  const at::Tensor bands = kernels::band_pass(x);
  at::Tensor h = kernels::space_to_depth_input(bands, c_in, conditions.maps,
                                               effective_[static_cast<std::size_t>(stem_)].scalar_type());
  h = convolve(h, stem_);

  std::vector<at::Tensor> skips;
  for (std::size_t level = 0; level < encoder_.size(); ++level) {
    if (level > 0) h = at::avg_pool2d(h, 2);
    for (const Block& b : encoder_[level]) {
      h = encode(b, h, scales);
      if (level + 1 < encoder_.size()) skips.push_back(h);
    }
  }
  for (const Block& b : middle_) h = encode(b, h, scales);
  for (std::size_t level = decoder_.size(); level-- > 0;) {
    for (const Block& b : decoder_[level]) {
      h = decode(b, h, skips.back(), scales);
      skips.pop_back();
    }
  }
  // The bands sum to x, so that skip is a scale of each.
  return kernels::depth_to_space_output(convolve(h, head_), out * gains_[0].tensor, bands,
                                        skip.unsqueeze(1) + out.unsqueeze(1) * c_in * band_gains);
}

at::Tensor EdmNetwork::denoise(const at::Tensor& x, const at::Tensor& sigma, const Conditions& conditions) {
  const Preconditioning c = precondition(sigma);
  return estimate(x, sigma, c.skip.flatten(), c.out.flatten(), conditions);
}

at::Tensor EdmNetwork::loss(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& sigma,
                            const Conditions& conditions) {
  const Preconditioning c = precondition(sigma);
  const at::Tensor x = x0 + noise * sigma.view({-1, 1, 1, 1});
  // lambda = 1 / c_out^2 makes the loss the mean square error of F against its own target.
  const at::Tensor target = (x0 - c.skip * x) / c.out;
  const at::Tensor f = estimate(x, sigma, at::zeros_like(sigma), at::ones_like(sigma), conditions);
  return (f - target).square().mean();
}

std::vector<NamedTensor> EdmNetwork::parameters() {
  std::vector<NamedTensor> all = weights_;
  all.insert(all.end(), gains_.begin(), gains_.end());
  return all;
}

std::vector<at::Tensor> EdmNetwork::raw_weights() const {
  std::vector<at::Tensor> raw;
  for (const NamedTensor& w : weights_) raw.push_back(w.tensor);
  return raw;
}

void EdmNetwork::compute_weights(at::ScalarType dtype) {
  packed_.clear();
  effective_ = kernels::normalize_weights(raw_weights(), dtype);
  if (device_.is_cpu()) return;  // which convolves repeated pixels as they are, but for odd numbers of channels
  for (const std::vector<Block>& level : decoder_) {
    const Block& enlarging = level.front();
    const at::Tensor w = effective_[static_cast<std::size_t>(enlarging.first)];
    effective_.push_back(kernels::phase_weights(w.narrow(1, 0, enlarging.coarse), dtype));
  }
}

std::vector<dist::Unit> Denoiser::units() {
  dist::Unit root{"root", {}};
  for (const NamedTensor& p : parameters()) root.tensors.emplace_back(p.name, p.tensor);
  return {root};
}

std::vector<std::string> EdmNetwork::unit_rows() const {
  std::vector<std::string> names;
  for (const NamedTensor& w : weights_) names.push_back(w.name);
  return names;
}

void EdmNetwork::after_update() {
  weights_changed();
  kernels::force_unit_weights(raw_weights());
}

void EdmNetwork::prepare_for_sampling(at::ScalarType dtype) {
  c10::NoGradGuard no_grad;
  compute_weights(dtype);
  prepared_ = true;
}

std::int64_t EdmNetwork::alignment() const { return kStem << (config_.widths.size() - 1); }
std::int64_t EdmNetwork::receptive_radius() const { return radius_; }
double EdmNetwork::flops(std::int64_t height, std::int64_t width) const {
  return 2 * macs_per_pixel_ * static_cast<double>(height * width);
}

}  // namespace cirrus::diffusion
