// A super-resolution model: the network with its averaged weights, and everything that must be known to use it. One safetensors
// file with the metadata key `cirrus` (JSON, format "cirrus-model/1").
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "diffusion/edm_network.h"
#include "enhance/observation.h"

namespace cirrus::enhance {

struct Model {
  std::string name;      ///< file name without folder and extension
  std::string sha256;    ///< of the file
  std::int64_t factor = 4;
  ResidualScale scale;
  nlohmann::json card;   ///< the whole metadata
  std::unique_ptr<diffusion::EdmNetwork> network;
};

/// Metadata of a model: what the network needs, and what people want to know (`training`, `beams`, `noise`, `validation`).
nlohmann::json model_card(const diffusion::EdmConfig& network, std::int64_t factor, const ResidualScale& scale, const nlohmann::json& training,
                          const nlohmann::json& ranges);

void save_model(const std::filesystem::path& path, const std::vector<std::pair<std::string, at::Tensor>>& weights,
                const nlohmann::json& card);

/// Reads a model onto a device. Throws Error(no_input), Error(bad_data) for a file that is not a Cirrus model.
Model load_model(const std::filesystem::path& path, const at::Device& device, at::ScalarType dtype);

/// The metadata alone. Throws as load_model.
nlohmann::json read_card(const std::filesystem::path& path);

/// Folders that are searched for models by name: CIRRUS_MODELS, models/ beside the program's folder and in the source tree,
/// share/cirrus/models.
std::vector<std::filesystem::path> model_folders();

/// The file of `--model NAME|FILE`; empty: the shipped model of that factor. Throws Error(no_input) naming what was looked for where.
std::filesystem::path find_model(const std::string& name_or_file, std::int64_t factor);

}  // namespace cirrus::enhance
