// What can be planned: models as sizes, without their weights. Language models by their shapes (built in, or a Hugging
// Face config.json), super-resolution networks by a training configuration. Each becomes a workload: the units, the
// activations and the arithmetic of one rank's step.
#pragma once

#include <filesystem>

#include "train/memory_plan.h"

namespace cirrus::scale {

/// A decoder-only transformer with grouped-query attention and a gated feed-forward layer.
struct LanguageModel {
  std::string name;
  std::int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
  bool tied = false;    ///< the head is the embedding
  bool gemma2 = false;  ///< norms after attention and feed-forward too; soft caps on scores and logits
  bool attention_bias = false;

  std::int64_t parameters() const;
};

/// Names of the built-in language models.
std::vector<std::string> language_models();
/// A built-in model by name, or the shape in a Hugging Face config.json (or the folder that holds one). Throws
/// Error(usage) for an unknown name, Error(no_input) or Error(bad_data) for a file.
LanguageModel language_model(const std::string& name);

/// What one rank does in a step, whatever the model.
struct Settings {
  std::int64_t batch = 0;         ///< samples a rank computes at a time; 0: the model's own
  std::int64_t accumulation = 1;  ///< so many times a step
  at::ScalarType dtype = at::kBFloat16;
  std::optional<bool> average{};  ///< moving average of the weights; the model's own otherwise
  at::Device device = at::kMeta;  ///< cpu, or any other for an accelerator
  // Language models:
  std::int64_t length = 512;
  std::int64_t lora_rank = 0;  ///< 0: all weights are trained
  std::vector<std::string> lora_targets{"q", "v"};
  bool flash = true;
  std::int64_t logits_chunk = 0;  ///< tokens whose logits are there at a time; 0: all
};

struct Workload {
  std::string name, kind;  ///< kind: language, sr3, edm
  train::TrainingSize size;
  std::int64_t parameters = 0;
  std::int64_t samples = 0;  ///< of a rank's step
  double forward_flops = 0;  ///< of a rank's step, a multiply-add counting 2
  double backward_flops = 0;
  std::string describes;  ///< batch, length, what is trained
};

Workload language_workload(const LanguageModel& model, const Settings& settings);
/// `name`: sr3-64-256, edm-base, or a training configuration (*.toml), whose batch a rank has (Settings::batch
/// otherwise).
Workload network_workload(const std::string& name, const Settings& settings);
/// Either, by name. Throws Error(usage) that names the nearest known model.
Workload workload(const std::string& name, const Settings& settings);

/// One decoder layer on batch x length tokens: what it keeps and needs, element by element.
dist::Activations layer_activations(const LanguageModel& model, const Settings& settings);
/// The embedding's result; the last norm, logits and loss.
dist::Activations embedding_activations(const LanguageModel& model, const Settings& settings);
dist::Activations head_activations(const LanguageModel& model, const Settings& settings);

}  // namespace cirrus::scale
