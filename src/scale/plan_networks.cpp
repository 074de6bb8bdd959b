// Super-resolution networks as sizes: from a training configuration, without their weights.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/nearest.h"
#include "base/option_value.h"
#include "diffusion/edm_network.h"
#include "diffusion/sr3_network.h"
#include "scale/plan_models.h"

namespace cirrus::scale {
namespace {

/// The keys of configs/train/*.toml that decide sizes; defaults are those of the program that trains.
struct Configured {
  std::string kind = "edm";
  diffusion::EdmConfig edm;
  diffusion::Sr3Config sr3;
  std::int64_t patch = 64, batch = 16, accumulation = 1;
  bool average = true;
};

Configured read(const std::string& path) {
  Configured c;
  const std::map<std::string, Field> fields{{"network.kind", &c.kind},
                                            {"network.widths", &c.edm.widths},
                                            {"network.blocks", &c.edm.blocks},
                                            {"network.middle_blocks", &c.edm.middle_blocks},
                                            {"network.embedding", &c.edm.embedding},
                                            {"sr3.inner", &c.sr3.inner},
                                            {"sr3.multipliers", &c.sr3.multipliers},
                                            {"sr3.blocks", &c.sr3.blocks},
                                            {"sr3.attention_level", &c.sr3.attention_level},
                                            {"sr3.groups", &c.sr3.groups},
                                            {"sr3.dropout", &c.sr3.dropout},
                                            {"task.patch", &c.patch},
                                            {"train.batch", &c.batch},
                                            {"train.accumulation", &c.accumulation},
                                            {"optimizer.average", &c.average}};
  for (const ConfigEntry& entry : read_config(path)) {
    const auto field = fields.find(entry.key);
    if (field == fields.end()) continue;  // of no matter to sizes
    const std::string wrong = assign(field->second, entry.value, false);
    if (!wrong.empty())
      throw Error(ExitCode::config, path + ", line " + std::to_string(entry.line) + ": " + entry.key + " = " +
                                        entry.value.shown + " is " + wrong);
  }
  if (c.kind != "edm" && c.kind != "sr3")
    throw Error(ExitCode::config, path + ": network.kind is " + c.kind, "use edm or sr3");
  if (c.patch < 1 || c.batch < 1 || c.accumulation < 1)
    throw Error(ExitCode::config, path + ": task.patch, train.batch and train.accumulation must be at least 1");
  return c;
}

std::unique_ptr<diffusion::Denoiser> sketch(const Configured& c, at::ScalarType dtype, const std::string& path) {
  const at::Device nowhere(at::kMeta);
  try {
    if (c.kind == "sr3")
      return std::make_unique<diffusion::Sr3Network>(diffusion::Sr3Config::from_json(c.sr3.to_json()), 0, nowhere,
                                                     dtype, diffusion::Sr3Network::Weights::unset);
    return std::make_unique<diffusion::EdmNetwork>(diffusion::EdmConfig::from_json(c.edm.to_json()), 0, nowhere, dtype);
  } catch (const Error& e) {
    throw Error(ExitCode::config, path + ": " + e.what());
  }
}

}  // namespace

Workload network_workload(const std::string& name, const Settings& s) {
  Configured c;
  if (name.ends_with(".toml")) {
    c = read(name);
  } else if (name == "sr3-64-256") {
    c.kind = "sr3";
    c.patch = 256;
    c.batch = 4;
    c.average = false;
  } else if (name != "edm-base") {
    throw Error(ExitCode::usage, "There is no network '" + name + "'");
  }
  const std::int64_t batch = s.batch > 0 ? s.batch : std::max<std::int64_t>(1, c.batch / c.accumulation);
  const std::int64_t accumulation = s.batch > 0 ? s.accumulation : std::max(s.accumulation, c.accumulation);
  const std::unique_ptr<diffusion::Denoiser> network = sketch(c, s.dtype, name);
  if (c.patch % network->alignment() != 0)
    throw Error(ExitCode::config, name + ": task.patch = " + std::to_string(c.patch) + " must be a multiple of " +
                                      std::to_string(network->alignment()) + ", the network's coarsest pixel");
  std::vector<dist::Unit> units = network->units();
  for (dist::Unit& unit : units)
    for (auto& [tensor_name, tensor] : unit.tensors) tensor.requires_grad_(true);
  train::TrainerOptions options;
  options.optimizer.average = s.average.value_or(c.average);
  options.accumulation = accumulation;
  Workload w;
  w.name = name;
  w.kind = c.kind;
  w.size = train::size_of(units, options, network->activations(batch, c.patch, c.patch, s.device));
  const double area = static_cast<double>(c.patch * c.patch);
  // Image, conditions and noise, float32.
  w.size.inputs = static_cast<double>(batch * accumulation * (2 + network->condition_maps())) * area * 4;
  w.parameters = w.size.trained_elements();
  w.samples = batch * accumulation;
  w.forward_flops = static_cast<double>(w.samples) * network->flops(c.patch, c.patch);
  w.backward_flops = 2 * w.forward_flops;
  w.describes = std::to_string(batch) + " samples of " + std::to_string(c.patch) + " x " + std::to_string(c.patch);
  if (accumulation > 1) w.describes += ", " + std::to_string(accumulation) + " times a step";
  return w;
}

Workload workload(const std::string& name, const Settings& settings) {
  if (name.ends_with(".toml") || name == "sr3-64-256" || name == "edm-base") return network_workload(name, settings);
  std::vector<std::string> known = language_models();
  if (std::find(known.begin(), known.end(), name) == known.end() && !name.ends_with(".json") &&
      !std::filesystem::is_directory(name)) {
    known.insert(known.end(), {"sr3-64-256", "edm-base"});
    std::string all;
    for (const std::string& k : known) all += (all.empty() ? "" : ", ") + k;
    throw Error(ExitCode::usage, "There is no model '" + name + "' (did you mean " + nearest_name(name, known) + "?)",
                "known: " + all + "; or a training configuration (.toml), or a Hugging Face config.json");
  }
  return language_workload(language_model(name), settings);
}

}  // namespace cirrus::scale
