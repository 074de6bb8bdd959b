// Saving, loading and finding models.
#include "enhance/model.h"

#include <c10/core/GradMode.h>

#include <cstdlib>

#include "base/errors.h"
#include "base/files.h"
#include "base/safetensors.h"
#include "dist/tensor_file.h"

namespace cirrus::enhance {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "cirrus-model/1";

nlohmann::json card_of(const std::map<std::string, std::string>& metadata, const fs::path& path) {
  const auto it = metadata.find("cirrus");
  const nlohmann::json card = it == metadata.end() ? nlohmann::json() : nlohmann::json::parse(it->second, nullptr, false);
  if (!card.is_object() || card.value("format", "") != kFormat)
    throw Error(ExitCode::bad_data, path.string() + " is not a Cirrus model (its metadata has no entry 'cirrus' of format " + kFormat + ")",
                "`cirrus models` lists the models there are");
  return card;
}

}  // namespace

nlohmann::json model_card(const diffusion::EdmConfig& network, std::int64_t factor, const ResidualScale& scale, const nlohmann::json& training,
                          const nlohmann::json& ranges) {
  return {{"format", kFormat},
          {"network", "edm"},
          {"network_config", network.to_json()},
          {"factor", factor},
          {"transform", {{"kind", "asinh"}, {"center", "median"}, {"width", "1.4826 MAD"}, {"residual_scale", scale.to_json()}}},
          {"beams", ranges.at("beams")},
          {"noise", ranges.at("noise")},
          {"training", training},
          {"validation", nlohmann::json::object()}};
}

void save_model(const fs::path& path, const std::vector<std::pair<std::string, at::Tensor>>& weights, const nlohmann::json& card) {
  dist::save_tensors(path, weights, {{"cirrus", card.dump()}}, true);
}

nlohmann::json read_card(const fs::path& path) { return card_of(read_safetensors(path).header.metadata, path); }

Model load_model(const fs::path& path, const at::Device& device, at::ScalarType dtype) {
  c10::NoGradGuard no_grad;
  const dist::TensorFile file = dist::load_tensors(path);
  Model m;
  m.card = card_of(file.metadata, path);
  m.name = path.stem().string();
  m.sha256 = sha256_file(path);
  try {
    if (m.card.at("network") != "edm") throw Error(ExitCode::bad_data, path.string() + ": network '" + m.card.at("network").get<std::string>() + "' is not known to this version");
    m.factor = m.card.at("factor");
    m.scale = ResidualScale::from_json(m.card.at("transform").at("residual_scale"));
    m.network = std::make_unique<diffusion::EdmNetwork>(diffusion::EdmConfig::from_json(m.card.at("network_config")), 0, device, dtype);
  } catch (const nlohmann::json::exception& e) {
    throw Error(ExitCode::bad_data, path.string() + ": the model's metadata is incomplete: " + e.what());
  }
  if (m.factor < 2 || m.factor > 16) throw Error(ExitCode::bad_data, path.string() + ": factor " + std::to_string(m.factor) + " is impossible");
  for (const diffusion::NamedTensor& p : m.network->parameters()) {
    const at::Tensor& w = file.get(p.name, p.tensor.sizes());
    if (!w.isfinite().all().item<bool>()) throw Error(ExitCode::bad_data, path.string() + ": tensor '" + p.name + "' holds values that are not finite");
    p.tensor.copy_(w);
  }
  m.network->prepare_for_sampling(dtype);
  return m;
}

std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("CIRRUS_MODELS")) folders.emplace_back(path);
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& relative : {fs::path("models"), fs::path("../models"), fs::path("../../models"), fs::path("../share/cirrus/models")})
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
  throw Error(ExitCode::no_input, "No model '" + name + "' (looked in " + looked + ")", "`cirrus models` lists the models there are; CIRRUS_MODELS names a further folder");
}

}  // namespace cirrus::enhance
