// A super-resolution model: the network with its averaged weights, and everything that must be known to use it. One
// safetensors file with the metadata key `cirrus` (JSON, format "cirrus-model/1").
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "diffusion/edm_network.h"
#include "diffusion/sr3_network.h"
#include "enhance/observation.h"

namespace cirrus::enhance {

/// What a model was trained on; ranges are {lowest, highest}.
struct TrainedRange {
  double usual_beam = 2.3;  ///< FWHM in output pixels of most of its skies: the output's unless told otherwise
  std::array<double, 2> output_beam{};      ///< FWHM in output pixels
  std::array<double, 2> input_beam{};       ///< FWHM in input pixels (beam mode)
  std::array<double, 2> signal_to_noise{};  ///< robust sigma of the map over its noise (beam mode)
};

struct Model {
  std::string name;    ///< file name without folder and extension
  std::string sha256;  ///< of the file
  std::int64_t factor = 4;
  ResidualScale scale;
  TrainedRange trained;
  nlohmann::json card;  ///< the whole metadata
  std::string kind;     ///< of network: "edm", the product's, or "sr3", the published one
  std::unique_ptr<diffusion::Denoiser> network;
  device::Device* device = nullptr;  ///< it lives on; outlives the model
};

/// What the model's network needs of an observation.
Prepared prepare(const Observation& observation, const Model& model);

/// Metadata of a model: what the network needs, and what people want to know (`training`, `beams`, `noise`,
/// `validation`). `transform`: the scaling of maps, without its kind and constants, which are the same for all.
nlohmann::json model_card(const std::string& kind, const nlohmann::json& network_config, std::int64_t factor,
                          const nlohmann::json& transform, const nlohmann::json& training,
                          const nlohmann::json& ranges);

/// As a model's file holds it.
std::map<std::string, std::string> metadata_of(const nlohmann::json& card);

void save_model(const std::filesystem::path& path, const std::vector<std::pair<std::string, at::Tensor>>& weights,
                const nlohmann::json& card);

/// Reads a model onto a device. Throws Error(no_input), Error(bad_data) for a file that is not a Cirrus model or whose
/// metadata do not fit its weights.
Model load_model(const std::filesystem::path& path, device::Device& device, at::ScalarType dtype);

/// One evaluation of an empty window of side x side pixels (a multiple of the alignment); waits for it. What it takes
/// in time and memory is what any such window takes.
void evaluate_empty_window(Model& model, std::int64_t side);

/// Seconds the network takes for one pixel of one evaluation, measured on a small window.
double seconds_per_pixel(Model& model);

/// The metadata alone. Throws as load_model.
nlohmann::json read_card(const std::filesystem::path& path);

/// Folders that are searched for models by name: CIRRUS_MODELS, models/ beside the program's folder and in the source
/// tree, share/cirrus/models.
std::vector<std::filesystem::path> model_folders();

/// The file of `--model NAME|FILE`; empty: the shipped model of that factor. Throws Error(no_input) naming what was
/// looked for where.
std::filesystem::path find_model(const std::string& name_or_file, std::int64_t factor);

}  // namespace cirrus::enhance
