// Saving, loading and finding models.
#include "enhance/model.h"

#include <c10/core/GradMode.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/safetensors.h"
#include "dist/tensor_file.h"
#include "enhance/sr3_image.h"

namespace cirrus::enhance {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "cirrus-model/1";

nlohmann::json card_of(const std::map<std::string, std::string>& metadata, const fs::path& path) {
  const auto it = metadata.find("cirrus");
  const nlohmann::json card =
      it == metadata.end() ? nlohmann::json() : nlohmann::json::parse(it->second, nullptr, false);
  if (!card.is_object() || !card.contains("format") || card["format"] != kFormat)
    throw Error(ExitCode::bad_data,
                path.string() + " is not a Cirrus model (its metadata has no entry 'cirrus' of format " + kFormat + ")",
                "`cirrus models` lists the models there are");
  return card;
}

std::int64_t whole_number(const nlohmann::json& json) {
  if (!json.is_number_integer()) throw Error(ExitCode::bad_data, "'" + json.dump() + "' is not a whole number");
  return json.get<std::int64_t>();
}

std::array<double, 2> range_of(const nlohmann::json& json) {
  const auto range = json.get<std::array<double, 2>>();
  if (!(range[0] > 0) || !(range[1] >= range[0]) || !std::isfinite(range[1]))
    throw Error(ExitCode::bad_data, "'" + json.dump() + "' is not a range of positive numbers");
  return range;
}

TrainedRange trained_range(const nlohmann::json& card) {
  const nlohmann::json& beams = card.at("beams");
  TrainedRange t;
  t.usual_beam = beams.at("output_pixels").get<double>();
  if (!(t.usual_beam >= 0.5 && t.usual_beam <= 20))
    throw Error(ExitCode::bad_data, "an output beam of " + beams.at("output_pixels").dump() + " pixels is impossible");
  t.output_beam = range_of(beams.at("output_range"));
  t.input_beam = range_of(beams.at("input_range_lr_pixels"));
  t.signal_to_noise = range_of(card.at("noise").at("snr"));
  return t;
}

/// Metadata that ask for more weights than the file holds are wrong; found before memory is taken for them. Each block
/// has at least one 3 x 3 convolution of its level's width to itself.
void require_weights_for(const diffusion::EdmConfig& config, const dist::TensorFile& file) {
  double held = 0, needed = 0;
  for (const auto& [name, tensor] : file.tensors) held += static_cast<double>(tensor.numel());
  for (const std::int64_t w : config.widths) needed += 18.0 * static_cast<double>(config.blocks * w * w);
  needed += 18.0 * static_cast<double>(config.middle_blocks * config.widths.back() * config.widths.back());
  if (needed > held) throw Error(ExitCode::bad_data, "the network described there is larger than the file's weights");
}

std::unique_ptr<diffusion::Denoiser> make_edm(const nlohmann::json& json, const dist::TensorFile& file,
                                              const at::Device& device, at::ScalarType dtype) {
  const auto config = diffusion::EdmConfig::from_json(json);
  if (config.condition_maps != kConditionMaps || config.condition_scalars != kConditionScalars)
    throw Error(ExitCode::bad_data, "its conditions are not those of this version");
  require_weights_for(config, file);
  return std::make_unique<diffusion::EdmNetwork>(config, 0, device, dtype);
}

std::unique_ptr<diffusion::Denoiser> make_sr3(const nlohmann::json& json, const dist::TensorFile& file,
                                              const at::Device& device, at::ScalarType dtype) {
  const auto config = diffusion::Sr3Config::from_json(json);
  for (const diffusion::Sr3Parameter& p : diffusion::Sr3Network::layout(config)) (void)file.get(p.name, p.shape);
  return std::make_unique<diffusion::Sr3Network>(config, 0, device, dtype, diffusion::Sr3Network::Weights::unset);
}

}  // namespace

nlohmann::json model_card(const std::string& kind, const nlohmann::json& network_config, std::int64_t factor,
                          const nlohmann::json& transform, const nlohmann::json& training,
                          const nlohmann::json& ranges) {
  nlohmann::json scaling{{"kind", "asinh"}, {"center", "median"}, {"width", "1.4826 MAD"}};
  scaling.update(transform);
  return {{"format", kFormat},
          {"network", kind},
          {"network_config", network_config},
          {"factor", factor},
          {"transform", scaling},
          {"beams", ranges.at("beams")},
          {"noise", ranges.at("noise")},
          {"training", training},
          {"validation", nlohmann::json::object()}};
}

Prepared prepare(const Observation& observation, const Model& model) {
  return model.kind == "sr3" ? prepare_image(observation) : prepare(observation, model.scale);
}

std::map<std::string, std::string> metadata_of(const nlohmann::json& card) { return {{"cirrus", card.dump()}}; }

void save_model(const fs::path& path, const std::vector<std::pair<std::string, at::Tensor>>& weights,
                const nlohmann::json& card) {
  dist::save_tensors(path, weights, metadata_of(card), true);
}

nlohmann::json read_card(const fs::path& path) { return card_of(read_safetensors_header(path).metadata, path); }

Model load_model(const fs::path& path, device::Device& device, at::ScalarType dtype) {
  const c10::NoGradGuard no_grad;
  const dist::TensorFile file = dist::load_tensors(path);
  Model m;
  m.card = card_of(file.metadata, path);
  m.name = path.stem().string();
  m.sha256 = sha256_file(path);
  try {
    m.device = &device;
    m.kind = m.card.at("network").get<std::string>();
    if (m.kind != "edm" && m.kind != "sr3")
      throw Error(ExitCode::bad_data, "network '" + m.kind + "' is not known to this version");
    m.factor = whole_number(m.card.at("factor"));
    if (m.factor < 2 || m.factor > 16)
      throw Error(ExitCode::bad_data, "factor " + std::to_string(m.factor) + " is impossible");
    if (m.kind == "edm") m.scale = ResidualScale::from_json(m.card.at("transform").at("residual_scale"));
    m.trained = trained_range(m.card);
    m.network =
        (m.kind == "edm" ? make_edm : make_sr3)(m.card.at("network_config"), file, device.torch_device(), dtype);
    for (const diffusion::NamedTensor& p : m.network->parameters()) {
      const at::Tensor& w = file.get(p.name, p.tensor.sizes());
      if (!w.isfinite().all().item<bool>())
        throw Error(ExitCode::bad_data, "tensor '" + p.name + "' holds values that are not finite");
      p.tensor.copy_(w);
    }
  } catch (const nlohmann::json::exception& e) {
    throw Error(ExitCode::bad_data, path.string() + ": the model's metadata are incomplete: " + e.what(),
                "get the file anew");
  } catch (const Error& e) {
    throw Error(e.code(), path.string() + ": not a usable model: " + e.what(), "get the file anew");
  }
  m.network->prepare_for_sampling(dtype);
  return m;
}

void evaluate_empty_window(Model& model, std::int64_t side) {
  const c10::NoGradGuard no_grad;
  diffusion::Denoiser& network = *model.network;
  const at::TensorOptions like = at::TensorOptions(model.device->torch_device()).dtype(at::kFloat);
  (void)network.denoise(
      at::zeros({1, 1, side, side}, like), at::ones({1}, like),
      {at::zeros({1, network.condition_maps(), side, side}, like), at::zeros({1, network.condition_scalars()}, like)});
  model.device->end_step();
  model.device->synchronize();
}

double seconds_per_pixel(Model& model) {
  // What sees the whole window takes longer for each pixel of a larger one; it is measured at its usual size.
  const std::int64_t align = model.network->alignment(),
                     side = (model.network->receptive_radius() == diffusion::kWholeWindow ? 256 : 512) / align * align;
  double seconds = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < 3;
       ++pass) {  // the first one warms up; what else the machine does disturbs the fastest least
    const double started = steady_seconds();
    evaluate_empty_window(model, side);
    seconds = std::min(seconds, steady_seconds() - started);
  }
  return seconds / static_cast<double>(side * side);
}

std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("CIRRUS_MODELS")) folders.emplace_back(path);
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& relative :
       {fs::path("models"), fs::path("../models"), fs::path("../../models"), fs::path("../share/cirrus/models")})
    folders.push_back((program / relative).lexically_normal());
#ifdef CIRRUS_SOURCE_MODELS
  folders.emplace_back(CIRRUS_SOURCE_MODELS);  // a build folder anywhere finds the source tree's models
#endif
  return folders;
}

fs::path find_model(const std::string& name_or_file, std::int64_t factor) {
  std::error_code ignored;
  if (!name_or_file.empty() && fs::is_regular_file(name_or_file, ignored)) return name_or_file;
  const std::string name = name_or_file.empty() ? "dust-x" + std::to_string(factor) : name_or_file;
  std::string looked;
  for (const fs::path& folder : model_folders()) {
    for (const std::string& file : {name, name + ".safetensors"})
      if (fs::is_regular_file(folder / file, ignored)) return folder / file;
    looked += (looked.empty() ? "" : ", ") + folder.string();
  }
  if (name_or_file.empty()) {
    std::set<std::int64_t> factors;
    for (const fs::path& folder : model_folders())
      for (std::int64_t s = 2; s <= 64; ++s)
        if (fs::is_regular_file(folder / ("dust-x" + std::to_string(s) + ".safetensors"), ignored)) factors.insert(s);
    std::string there;
    for (const std::int64_t s : factors) there += (there.empty() ? "" : ", ") + std::to_string(s);
    throw Error(ExitCode::no_input,
                "there is no model for factor " + std::to_string(factor) + ", only for " +
                    (there.empty() ? "none" : there) + " (looked in " + looked + ")",
                "choose one of these factors, or train a model of your own: --model FILE");
  }
  throw Error(ExitCode::no_input, "No model '" + name + "' (looked in " + looked + ")",
              "`cirrus models` lists the models there are; CIRRUS_MODELS names a further folder");
}

}  // namespace cirrus::enhance
