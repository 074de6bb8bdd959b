// A small network that was never trained, for tests that need a model but not a good one: its weights come from a seed,
// and its gains are not zero, so that every part of it acts on the output.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "enhance/model.h"
#include "tests/base/scratch_folder.h"

namespace cirrus::test {

inline diffusion::EdmConfig tiny_config() {
  diffusion::EdmConfig config;
  config.widths = {8, 16};
  config.middle_blocks = 1;
  config.embedding = 16;
  return config;
}

inline nlohmann::json tiny_card(std::int64_t factor = 4) {
  enhance::ResidualScale scale;
  scale.c = {-1, 0, 0, 0.1, 0, 0, -0.5};
  const nlohmann::json ranges{
      {"beams", {{"output_pixels", 2.3}, {"output_range", {1.8, 3.0}}, {"input_range_lr_pixels", {1.5, 3.5}}}},
      {"noise", {{"snr", {3, 300}}}}};
  return enhance::model_card("edm", tiny_config().to_json(), factor, {{"residual_scale", scale.to_json()}},
                             {{"sky", "none"}, {"samples", 0}}, ranges);
}

/// Writes the model; `card` may be anything.
inline void write_tiny_model(const std::filesystem::path& path, const nlohmann::json& card = tiny_card()) {
  diffusion::EdmNetwork network(tiny_config(), 0, at::kCPU, at::kFloat);
  std::vector<std::pair<std::string, at::Tensor>> weights;
  for (const diffusion::NamedTensor& p : network.parameters()) {
    at::Tensor w = p.tensor.detach().clone();
    if (p.name == "gain.head") w.fill_(0.5);
    if (p.name == "gain.scales") w.fill_(0.3);
    if (p.name == "gain.bands") w.fill_(0.1);
    weights.emplace_back(p.name, w);
  }
  enhance::save_model(path, weights, card);
}

inline enhance::Model tiny_model(std::int64_t factor = 4) {
  const ScratchFolder folder;
  write_tiny_model(folder / "tiny.safetensors", tiny_card(factor));
  return enhance::load_model(folder / "tiny.safetensors", device::cpu(), at::kFloat);
}

}  // namespace cirrus::test
