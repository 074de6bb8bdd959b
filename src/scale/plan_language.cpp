// Language models as sizes: parameters by shape, activations of a decoder layer tensor by tensor.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files.h"
#include "base/nearest.h"
#include "scale/plan_models.h"

namespace cirrus::scale {
namespace {

// From the models' config.json as their makers publish them.
const std::vector<LanguageModel>& table() {
  static const std::vector<LanguageModel> models{
      {"llama-3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256, false, false, false},
      {"llama-3.3-70b", 80, 8192, 28672, 64, 8, 128, 128256, false, false, false},
      {"gemma2-27b", 46, 4608, 36864, 32, 16, 128, 256000, true, true, false},
      {"tinyllama-1.1b", 22, 2048, 5632, 32, 4, 64, 32000, false, false, false},
      {"smollm2-135m", 30, 576, 1536, 9, 3, 64, 49152, true, false, false},
  };
  return models;
}

LanguageModel from_config(const std::filesystem::path& path) {
  const nlohmann::json j = nlohmann::json::parse(read_text(path), nullptr, false);
  if (!j.is_object()) throw Error(ExitCode::bad_data, path.string() + " is not a JSON object");
  LanguageModel m;
  m.name = j.value("_name_or_path", std::string{});
  if (m.name.empty())
    m.name = path.parent_path().filename().empty() ? "config.json" : path.parent_path().filename().string();
  const auto whole = [&](const char* key, std::int64_t otherwise) {
    if (!j.contains(key) || j.at(key).is_null()) {
      if (otherwise > 0) return otherwise;
      throw Error(ExitCode::bad_data, path.string() + " has no " + key, "give the config.json of a decoder-only model");
    }
    const nlohmann::json& v = j.at(key);
    if (!v.is_number_integer() || v.get<std::int64_t>() < 1 || v.get<std::int64_t>() > 100'000'000)
      throw Error(ExitCode::bad_data, path.string() + ": " + key + " is " + v.dump());
    return v.get<std::int64_t>();
  };
  m.layers = whole("num_hidden_layers", 0);
  m.hidden = whole("hidden_size", 0);
  m.ffn = whole("intermediate_size", 0);
  m.heads = whole("num_attention_heads", 0);
  m.kv_heads = whole("num_key_value_heads", m.heads);
  m.head_dim = whole("head_dim", std::max<std::int64_t>(1, m.hidden / m.heads));
  m.vocabulary = whole("vocab_size", 0);
  const auto yes = [&](const char* key, bool otherwise) {
    return j.contains(key) && j.at(key).is_boolean() ? j.at(key).get<bool>() : otherwise;
  };
  const std::string type =
      j.contains("model_type") && j.at("model_type").is_string() ? j.at("model_type").get<std::string>() : "llama";
  if (type != "llama" && type != "mistral" && type != "gemma2")
    throw Error(ExitCode::bad_data, path.string() + " describes a model of type " + type,
                "models of types llama, mistral and gemma2 can be planned");
  m.gemma2 = type == "gemma2";
  m.tied = yes("tie_word_embeddings", m.gemma2);
  m.attention_bias = yes("attention_bias", false);
  return m;
}

/// Rows and columns of a layer's matrices.
std::map<std::string, std::pair<std::int64_t, std::int64_t>> matrices(const LanguageModel& m) {
  const std::int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  return {{"q", {q, m.hidden}},        {"k", {kv, m.hidden}},     {"v", {kv, m.hidden}},      {"o", {m.hidden, q}},
          {"gate", {m.ffn, m.hidden}}, {"up", {m.ffn, m.hidden}}, {"down", {m.hidden, m.ffn}}};
}

std::vector<std::int64_t> layer_tensors(const LanguageModel& m) {
  std::vector<std::int64_t> out;
  for (const char* name : {"q", "k", "v", "o", "gate", "up", "down"}) {
    const auto [rows, columns] = matrices(m).at(name);
    out.push_back(rows * columns);
    const bool attention = std::string("qkvo").find(name) != std::string::npos;
    if (m.attention_bias && attention) out.push_back(rows);
  }
  for (int norm = 0; norm < (m.gemma2 ? 4 : 2); ++norm) out.push_back(m.hidden);
  return out;
}

std::int64_t sum(const std::vector<std::int64_t>& numels) {
  std::int64_t n = 0;
  for (const std::int64_t k : numels) n += k;
  return n;
}

bool adapts(const Settings& s, const char* target) {
  return s.lora_rank > 0 && std::find(s.lora_targets.begin(), s.lora_targets.end(), target) != s.lora_targets.end();
}

double tokens_of(const Settings& s) { return static_cast<double>(std::max<std::int64_t>(s.batch, 1) * s.length); }
double element(const Settings& s) { return static_cast<double>(c10::elementSize(s.dtype)); }

}  // namespace

std::int64_t LanguageModel::parameters() const {
  return layers * sum(layer_tensors(*this)) + vocabulary * hidden * (tied ? 1 : 2) + hidden;
}

std::vector<std::string> language_models() {
  std::vector<std::string> names;
  for (const LanguageModel& m : table()) names.push_back(m.name);
  return names;
}

LanguageModel language_model(const std::string& name) {
  for (const LanguageModel& m : table())
    if (m.name == name) return m;
  std::error_code error;
  std::filesystem::path path = name;
  if (std::filesystem::is_directory(path, error)) path /= "config.json";
  if (path.extension() == ".json") return from_config(path);
  throw Error(ExitCode::usage, "There is no model '" + name + "'",
              "known are " + nearest_name(name, language_models()) + " and others, or a Hugging Face config.json");
}

// Of a linear layer, its input is kept where its weight is trained; of one with an adapter, for the adapter. Nothing
// else of a frozen one is.
dist::Activations layer_activations(const LanguageModel& m, const Settings& s) {
  const double t = tokens_of(s), e = element(s), h = static_cast<double>(m.hidden), f = static_cast<double>(m.ffn);
  const double q = static_cast<double>(m.heads * m.head_dim), kv = static_cast<double>(m.kv_heads * m.head_dim);
  const double heads = static_cast<double>(m.heads), rank = static_cast<double>(s.lora_rank);
  const bool full = s.lora_rank == 0;
  const auto input_of = [&](std::initializer_list<const char*> layers) {
    return full || std::any_of(layers.begin(), layers.end(), [&](const char* l) { return adapts(s, l); }) ? 1.0 : 0.0;
  };
  double elements = input_of({"q", "k", "v"}) * h;  // normalised
  elements += q + 2 * kv + q;                       // queries and keys turned, values, what they give
  elements += h;                                    // after attention, normalised next
  elements += input_of({"gate", "up"}) * h;
  elements += 3 * f;  // gate, gate's activation, up
  elements += input_of({"down"}) * f;
  if (m.gemma2) elements += 2 * h;  // before the norms that follow attention and feed-forward
  for (const char* target : {"q", "k", "v", "o", "gate", "up", "down"})
    if (adapts(s, target)) elements += rank;
  dist::Activations a;
  a.kept = t * (e * elements + 4 * (heads + (m.gemma2 ? 4 : 2)));
  const double scores = static_cast<double>(s.length) * heads * t;  // of all pairs of tokens
  if (!s.flash) {
    a.kept += scores * (e + (m.gemma2 ? e : 0));  // after the softmax; after the soft cap
    a.kept += t * e * 2 * (q - kv);               // keys and values repeated for each head
  }
  a.output = t * e * h;
  a.working = t * e * (2 * f + 2 * h);
  if (!s.flash) a.working = std::max(a.working, 3 * e * scores);
  return a;
}

dist::Activations embedding_activations(const LanguageModel& m, const Settings& s) {
  const double t = tokens_of(s);
  return {t * 8, t * element(s) * static_cast<double>(m.hidden), t * element(s) * static_cast<double>(m.hidden), 0};
}

dist::Activations head_activations(const LanguageModel& m, const Settings& s) {
  const double t = tokens_of(s), e = element(s), h = static_cast<double>(m.hidden),
               v = static_cast<double>(m.vocabulary);
  const double logits = v * (s.logits_chunk > 0 ? std::min(t, static_cast<double>(s.logits_chunk)) : t);
  const double wide = std::max(e, 4.0);
  dist::Activations a;
  // Logarithms of probabilities in float32; a soft cap keeps the capped logits too.
  a.kept = t * (s.lora_rank == 0 ? e * h : 0) + 4 * t + logits * (wide + (m.gemma2 ? wide : 0));
  // Gradients of those and of the logits, and what becomes of them in the activations' type.
  a.working = logits * (2 * wide);
  return a;
}

Workload language_workload(const LanguageModel& m, const Settings& given) {
  Settings s = given;
  if (s.batch == 0) s.batch = 1;
  for (const std::string& target : s.lora_targets)
    if (!matrices(m).contains(target))
      throw Error(ExitCode::usage, "There is no matrix '" + target + "' to adapt", "use q, k, v, o, gate, up, down");
  Workload w;
  w.name = m.name;
  w.kind = "language";
  train::TrainingSize& size = w.size;
  const bool full = s.lora_rank == 0;
  size.used = size.frozen = s.dtype;
  size.weights = s.dtype == at::kDouble ? at::kDouble : at::kFloat;  // updated in full precision
  size.average = s.average.value_or(false);
  size.accumulation = s.accumulation;
  size.inputs = tokens_of(s) * 8 * 2 * static_cast<double>(s.accumulation);  // tokens and labels
  train::UnitSize root{"root", {}, {}};
  auto& outside = full ? root.trained : root.frozen;
  outside.push_back(m.vocabulary * m.hidden);
  if (!m.tied) outside.push_back(m.vocabulary * m.hidden);
  outside.push_back(m.hidden);
  size.units.push_back(root);
  double adapters = 0;
  for (std::int64_t l = 0; l < m.layers; ++l) {
    train::UnitSize unit{"layer." + std::to_string(l), {}, {}};
    (full ? unit.trained : unit.frozen) = layer_tensors(m);
    for (const auto& [name, shape] : matrices(m)) {
      if (!adapts(s, name.c_str())) continue;
      unit.trained.push_back(s.lora_rank * shape.second);
      unit.trained.push_back(shape.first * s.lora_rank);
      adapters += static_cast<double>(s.lora_rank * (shape.first + shape.second));
    }
    size.units.push_back(std::move(unit));
  }
  size.activations.units.push_back(embedding_activations(m, s));
  size.activations.units.resize(size.units.size(), layer_activations(m, s));
  size.activations.head = head_activations(m, s);
  w.parameters = m.parameters();
  w.samples = s.batch * s.accumulation;
  // Matrices and head; scores and mixtures of causal attention, half of all pairs where the kernel leaves the rest out.
  const double t = tokens_of(s) * static_cast<double>(s.accumulation),
               pairs = static_cast<double>(s.length) * (s.flash ? 0.5 : 1);
  const double dense = static_cast<double>(m.layers * sum(layer_tensors(m)) + m.vocabulary * m.hidden);
  const double attention = 4 * pairs * static_cast<double>(m.heads * m.head_dim * m.layers);
  w.forward_flops = t * (2 * (dense + adapters) + attention);
  // Frozen matrices pass gradients on and have none of their own.
  w.backward_flops = t * ((full ? 4 : 2) * dense + 4 * adapters + 2 * attention);
  w.describes = std::to_string(s.batch) + " x " + std::to_string(s.length) + " tokens";
  if (s.accumulation > 1) w.describes += ", " + std::to_string(s.accumulation) + " times a step";
  if (full) {
    w.describes += ", all weights trained";
  } else {
    w.describes += ", LoRA of rank " + std::to_string(s.lora_rank) + " on ";
    for (std::size_t i = 0; i < s.lora_targets.size(); ++i) w.describes += (i > 0 ? "," : "") + s.lora_targets[i];
  }
  w.describes += s.flash ? ", flash attention" : ", scores kept";
  return w;
}

}  // namespace cirrus::scale
