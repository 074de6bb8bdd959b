// Small models whose memory in training is counted (memory_probe.cpp) and planned (plan_test.cpp): the blocks of
// tests/train, a decoder-only language model made of ATen operators, and Cirrus' networks.
#pragma once

#include "base/random.h"
#include "diffusion/edm_network.h"
#include "diffusion/sr3_network.h"
#include "scale/plan_models.h"
#include "tests/dist/probe.h"
#include "tests/train/blocks_task.h"

namespace cirrus::test {

using Settings = KeyValues;

inline at::ScalarType type_of(const Settings& s) {
  return s.text("type", "fp32") == "bf16" ? at::kBFloat16 : at::kFloat;
}

inline train::TrainerOptions trainer_options(const Settings& s, int ranks) {
  train::TrainerOptions o;
  o.steps = 10;
  o.batch = s.number("batch", 4) * ranks * s.number("accumulation", 1);  // batch: of a rank at a time
  o.accumulation = s.number("accumulation", 1);
  o.optimizer.average = s.yes("average", true);
  o.parallel.strategy = s.text("strategy", ranks > 1 ? "ddp" : "none");
  o.parallel.recompute = s.yes("recompute");
  o.parallel.keep_frozen = s.yes("keep_frozen");
  o.parallel.prefetch = s.yes("prefetch", true);
  o.parallel.reduce_each_part = s.yes("each_part", true);
  o.parallel.persist = s.number("persist", 1000);
  if (s.text("gather", "") == "bf16") o.parallel.gather_type = at::kBFloat16;
  if (s.text("reduce", "") == "bf16") o.parallel.reduce_type = at::kBFloat16;
  o.capture = false;
  return o;
}

inline BlocksOptions blocks_options(const Settings& s) {
  BlocksOptions b;
  b.blocks = s.number("blocks", 8);
  b.width = s.number("width", 64);
  b.words = s.number("words", 24);
  b.length = s.number("length", 16);
  b.type = type_of(s);
  b.frozen = s.yes("frozen");
  return b;
}

inline scale::LanguageModel decoder_shape(const Settings& s) {
  const std::int64_t heads = s.number("heads", 4), hidden = s.number("width", 64);
  return {"decoder",      s.number("blocks", 4),
          hidden,         s.number("ffn", 3 * hidden),
          heads,          s.number("kv", heads),
          hidden / heads, s.number("words", 64),
          s.yes("tied"),  false,
          false};
}

inline scale::Settings decoder_settings(const Settings& s) {
  scale::Settings out;
  out.batch = s.number("batch", 4);
  out.accumulation = s.number("accumulation", 1);
  out.length = s.number("length", 64);
  out.lora_rank = s.number("rank", 0);
  out.flash = s.yes("flash", true);
  out.dtype = at::kFloat;
  out.average = s.yes("average", true);
  return out;
}

/// A decoder in float32 on random words; with `rank`, all but the adapters of q and v is frozen.
class DecoderTask : public train::Task {
public:
  explicit DecoderTask(const Settings& s) : m_(decoder_shape(s)), s_(decoder_settings(s)) {
    const bool full = s_.lora_rank == 0;
    embedding_ = make({m_.vocabulary, m_.hidden}, full);
    head_ = m_.tied ? embedding_ : make({m_.vocabulary, m_.hidden}, full);
    norm_ = make({m_.hidden}, full);
    for (std::int64_t l = 0; l < m_.layers; ++l) {
      const std::int64_t q = m_.heads * m_.head_dim, kv = m_.kv_heads * m_.head_dim;
      Layer& k = layers_.emplace_back();
      for (const auto& [name, shape] :
           std::vector<std::pair<std::string, std::vector<std::int64_t>>>{{"q", {q, m_.hidden}},
                                                                          {"k", {kv, m_.hidden}},
                                                                          {"v", {kv, m_.hidden}},
                                                                          {"o", {m_.hidden, q}},
                                                                          {"gate", {m_.ffn, m_.hidden}},
                                                                          {"up", {m_.ffn, m_.hidden}},
                                                                          {"down", {m_.hidden, m_.ffn}},
                                                                          {"norm1", {m_.hidden}},
                                                                          {"norm2", {m_.hidden}}})
        k[name] = make(shape, full);
      if (full) continue;
      for (const char* name : {"q", "v"}) {
        k[std::string(name) + ".a"] = make({s_.lora_rank, m_.hidden}, true);
        k[std::string(name) + ".b"] = make({k[name].size(0), s_.lora_rank}, true);
      }
    }
  }
  std::vector<dist::Unit> units() override {
    std::vector<dist::Unit> all{{"root", {{"embedding", embedding_}, {"norm", norm_}}}};
    if (!m_.tied) all[0].tensors.emplace_back("head", head_);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      dist::Unit& u = all.emplace_back(dist::Unit{"layer." + std::to_string(l), {}});
      for (const auto& [name, t] : layers_[l]) u.tensors.emplace_back(u.name + "." + name, t);
    }
    return all;
  }
  void run_units_on(dist::UnitRunner* runner) override { runner_ = runner; }
  void begin_step(std::int64_t) override {}
  void load(std::int64_t, std::int64_t, std::int64_t count, std::int64_t) override {
    words_ = at::arange(count * (s_.length + 1)).mul(7).remainder(m_.vocabulary).view({count, s_.length + 1});
  }
  at::Tensor loss(std::int64_t begin, std::int64_t count) override {
    const at::Tensor words = words_.narrow(0, begin, count);
    at::Tensor x = at::embedding(embedding_, words.narrow(1, 0, s_.length));
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const dist::UnitRunner::Work work = [this, l](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{layer(layers_[l], in[0])};
      };
      x = (runner_ == nullptr ? work({x}) : runner_->run(l + 1, {x}, work))[0];
    }
    const at::Tensor logits = at::linear(normed(x, norm_), head_);
    return at::nll_loss(at::log_softmax(logits.view({-1, m_.vocabulary}), -1),
                        words.narrow(1, 1, s_.length).reshape({-1}));
  }
  std::map<std::string, std::string> model_metadata(std::int64_t, std::int64_t) override { return {}; }
  std::string fingerprint() const override { return "decoder"; }

private:
  using Layer = std::map<std::string, at::Tensor>;

  at::Tensor make(const std::vector<std::int64_t>& shape, bool trained) {
    const at::Tensor t = shape.size() == 1 ? at::ones(shape)
                                           : kernels::normals(shape, 3, Purpose::weights, made_++) /
                                                 std::sqrt(static_cast<double>(shape.back()));
    return t.to(at::kFloat).requires_grad_(trained);
  }
  /// An operator that keeps its input and a number for each token.
  static at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) {
    return at::layer_norm(x, weight.sizes(), weight);
  }
  at::Tensor project(const Layer& k, const std::string& name, const at::Tensor& x) const {
    const at::Tensor y = at::linear(x, k.at(name));
    return k.contains(name + ".a") ? y + at::linear(at::linear(x, k.at(name + ".a")), k.at(name + ".b")) : y;
  }
  at::Tensor turned(const at::Tensor& x) const {  // rotary: halves turned by angles that need no gradient
    const at::Tensor angle = at::arange(s_.length, at::kFloat).view({1, 1, -1, 1}) / 100;
    const std::vector<at::Tensor> half = x.chunk(2, -1);
    return x * angle.cos() + at::cat({-half[1], half[0]}, -1) * angle.sin();
  }
  at::Tensor layer(const Layer& k, const at::Tensor& x) const {
    const at::Tensor h = normed(x, k.at("norm1"));
    const auto split = [&](const at::Tensor& y, std::int64_t heads) {
      return y.view({x.size(0), s_.length, heads, m_.head_dim}).transpose(1, 2);
    };
    const at::Tensor q = turned(split(project(k, "q", h), m_.heads)),
                     key = turned(split(project(k, "k", h), m_.kv_heads)),
                     value = split(project(k, "v", h), m_.kv_heads);
    at::Tensor mixed;
    if (s_.flash) {
      mixed = at::scaled_dot_product_attention(q, key, value, {}, 0, true);
    } else {
      const std::int64_t times = m_.heads / m_.kv_heads;
      const at::Tensor keys = times > 1 ? key.repeat_interleave(times, 1) : key,
                       values = times > 1 ? value.repeat_interleave(times, 1) : value;
      const at::Tensor mask = at::full({s_.length, s_.length}, -1e9f).triu(1);
      const at::Tensor scores = q.matmul(keys.transpose(-2, -1)) / std::sqrt(static_cast<double>(m_.head_dim)) + mask;
      mixed = at::softmax(scores, -1).matmul(values);
    }
    const at::Tensor y = x + at::linear(mixed.transpose(1, 2).reshape(x.sizes()), k.at("o"));
    const at::Tensor n = normed(y, k.at("norm2"));
    return y + at::linear(at::silu(at::linear(n, k.at("gate"))) * at::linear(n, k.at("up")), k.at("down"));
  }

  const scale::LanguageModel m_;
  const scale::Settings s_;
  std::uint64_t made_ = 0;
  at::Tensor embedding_, head_, norm_, words_;
  std::vector<Layer> layers_;
  dist::UnitRunner* runner_ = nullptr;
};

inline std::unique_ptr<diffusion::Denoiser> make_network(const Settings& s, const at::Device& device) {
  if (s.kind == "edm")  // the shipped network
    return std::make_unique<diffusion::EdmNetwork>(diffusion::EdmConfig{}, 1, device, type_of(s));
  diffusion::Sr3Config c;
  c.inner = s.number("width", 32);
  c.multipliers = {1, 2, 4};
  c.blocks = 2;
  c.attention_level = 2;
  c.groups = 8;
  return std::make_unique<diffusion::Sr3Network>(
      c, 1, device, type_of(s),
      device.is_meta() ? diffusion::Sr3Network::Weights::unset : diffusion::Sr3Network::Weights::initial);
}

/// A network on noise.
class NoiseTask : public train::Task {
public:
  explicit NoiseTask(const Settings& s) : side_(s.number("side", 64)), network_(make_network(s, at::kCPU)) {
    network_->after_update();
    for (const diffusion::NamedTensor& p : network_->parameters()) p.tensor.requires_grad_(true);
  }
  std::vector<dist::Unit> units() override { return network_->units(); }
  void run_units_on(dist::UnitRunner* runner) override { network_->run_units_on(runner); }
  std::vector<std::string> unit_rows() override { return network_->unit_rows(); }
  void begin_step(std::int64_t) override {}
  void load(std::int64_t, std::int64_t, std::int64_t count, std::int64_t) override {
    if (planes_.defined()) return;
    planes_ = at::randn({count, 2 + network_->condition_maps(), side_, side_});
    scalars_ = at::randn({count, network_->condition_scalars()});
    sigma_ = at::rand({count}) + 0.1;
    samples_ = at::arange(count, at::kLong);
  }
  at::Tensor loss(std::int64_t begin, std::int64_t count) override {
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, count); };
    const at::Tensor planes = part(planes_);
    return network_->loss(planes.narrow(1, 0, 1), planes.narrow(1, 1, 1), part(sigma_),
                          {planes.narrow(1, 2, network_->condition_maps()), part(scalars_), part(samples_)});
  }
  void after_update() override { network_->weights_changed(); }
  std::map<std::string, std::string> model_metadata(std::int64_t, std::int64_t) override { return {}; }
  std::string fingerprint() const override { return "network"; }

private:
  std::int64_t side_;
  std::unique_ptr<diffusion::Denoiser> network_;
  at::Tensor planes_, scalars_, sigma_, samples_;
};

inline std::unique_ptr<train::Task> make_task(const Settings& s) {
  if (s.kind == "blocks") return std::make_unique<BlocksTask>(blocks_options(s));
  if (s.kind == "decoder") return std::make_unique<DecoderTask>(s);
  return std::make_unique<NoiseTask>(s);
}

}  // namespace cirrus::test
