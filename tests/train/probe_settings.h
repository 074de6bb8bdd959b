// What the probes of this folder train, from words: "blocks frozen=1 accumulation=4".
//   TASK key=value...
// TASK: blocks, edm, sr3. Keys: strategy, steps, batch, accumulation, type (fp64, fp32), recompute, keep_frozen,
// prefetch, each_part, frozen, unused, unequal, blocks, width, every (steps between checkpoints), background, gather,
// reduce (bf16), rate (of learning), clip, average, persist; and those of the program.
#pragma once

#include "diffusion/edm_network.h"
#include "diffusion/sr3_network.h"
#include "tests/diffusion/small_network.h"
#include "tests/dist/probe.h"
#include "tests/train/blocks_task.h"

namespace cirrus::test {

inline at::ScalarType type_of(const KeyValues& s, const char* key, const char* otherwise) {
  const std::string name = s.text(key, otherwise);
  return name == "fp64"   ? at::kDouble
         : name == "fp32" ? at::kFloat
         : name == "bf16" ? at::kBFloat16
                          : at::ScalarType::Undefined;
}

inline train::TrainerOptions trainer_options(const KeyValues& s, const std::string& strategy) {
  train::TrainerOptions o;
  o.steps = s.number("steps", 20);
  o.batch = s.number("batch", 4);
  o.accumulation = s.number("accumulation", 1);
  o.optimizer.learning_rate = s.real("rate", 0.003);
  o.optimizer.warmup = 3;
  o.optimizer.cooldown_share = 0;
  o.optimizer.clip = s.real("clip", 0.5);
  o.optimizer.weight_decay = 0.01;
  o.optimizer.average = s.yes("average", true);
  o.compute = type_of(s, "type", "fp64");
  o.record_steps = 1;
  o.checkpoint_steps = s.number("every", 0);
  o.checkpoint_in_background = s.yes("background", true);
  o.parallel.strategy = strategy;
  o.parallel.recompute = s.yes("recompute");
  o.parallel.keep_frozen = s.yes("keep_frozen");
  o.parallel.prefetch = s.yes("prefetch", true);
  o.parallel.reduce_each_part = s.yes("each_part", true);
  o.parallel.gather_type = type_of(s, "gather", "");
  o.parallel.reduce_type = type_of(s, "reduce", "");
  o.parallel.persist = s.number("persist", 200);
  return o;
}

/// A network on addressed batches.
class NetworkTask : public train::Task {
public:
  /// frozen=1: every third parameter is; unused=1: a parameter more that nothing uses.
  NetworkTask(std::unique_ptr<diffusion::Denoiser> network, const KeyValues& s)
      : network_(std::move(network)), type_(type_of(s, "type", "fp64")) {
    std::size_t n = 0;
    for (const diffusion::NamedTensor& p : network_->parameters()) {
      p.tensor.set_data(p.tensor.to(type_));
      p.tensor.requires_grad_(!s.yes("frozen") || ++n % 3 != 0);
    }
    if (s.yes("unused")) never_ = at::ones({5}, type_).requires_grad_(true);
    network_->weights_changed();
  }
  std::vector<dist::Unit> units() override {
    std::vector<dist::Unit> all = network_->units();
    if (never_.defined()) all[0].tensors.emplace_back("never", never_);
    return all;
  }
  void run_units_on(dist::UnitRunner* runner) override { network_->run_units_on(runner); }
  std::vector<std::string> unit_rows() override {  // of those that are trained
    std::vector<std::string> rows = network_->unit_rows();
    std::erase_if(rows, [&](const std::string& row) {
      for (const diffusion::NamedTensor& p : network_->parameters())
        if (p.name == row) return !p.tensor.requires_grad();
      return false;
    });
    return rows;
  }
  void begin_step(std::int64_t) override {}
  void load(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) override {
    std::vector<std::uint64_t> items;
    for (std::int64_t i = 0; i < count; ++i) items.push_back(static_cast<std::uint64_t>(step * batch + first + i));
    const auto fields = [&](std::uint32_t which) {
      return kernels::normal_noise({count, 1, 16, 16}, {9, Purpose::training_noise, items, which}).to(type_);
    };
    x0_ = 0.5 * fields(1);
    noise_ = fields(2);
    sigma_ = (fields(3).select(3, 0).select(2, 0).flatten() * 0.8 - 0.5).exp();
    std::vector<at::Tensor> maps;
    for (std::int64_t m = 0; m < network_->condition_maps(); ++m)
      maps.push_back(fields(4 + static_cast<std::uint32_t>(m)));
    maps_ = at::cat(maps, 1);
    scalars_ = fields(20).view({count, -1}).narrow(1, 0, network_->condition_scalars());
    std::vector<std::int64_t> numbers(items.begin(), items.end());
    samples_ = at::tensor(numbers, at::kLong);
  }
  at::Tensor loss(std::int64_t begin, std::int64_t count) override {
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, count); };
    return network_->loss(part(x0_), part(noise_), part(sigma_), {part(maps_), part(scalars_), part(samples_)});
  }
  void after_update() override { network_->weights_changed(); }
  std::map<std::string, std::string> model_metadata(std::int64_t, std::int64_t) override { return {}; }
  std::string fingerprint() const override { return "network"; }

private:
  std::unique_ptr<diffusion::Denoiser> network_;
  at::ScalarType type_;
  at::Tensor never_, x0_, noise_, sigma_, maps_, scalars_, samples_;
};

inline std::unique_ptr<train::Task> make_task(const KeyValues& s) {
  const at::ScalarType type = type_of(s, "type", "fp64");
  if (s.kind == "blocks") {
    BlocksOptions b;
    b.blocks = s.number("blocks", 16);
    b.width = s.number("width", 16);
    b.type = type;
    b.frozen = s.yes("frozen");
    b.unused = s.yes("unused");
    b.unequal = s.yes("unequal");
    return std::make_unique<BlocksTask>(b);
  }
  if (s.kind == "edm") {
    diffusion::EdmConfig c = small_config();
    c.widths = {8, 16};
    auto network = std::make_unique<diffusion::EdmNetwork>(c, 3, at::kCPU, type);
    diffusion::perturb_gains(*network, 0.5);
    network->after_update();
    return std::make_unique<NetworkTask>(std::move(network), s);
  }
  diffusion::Sr3Config c;
  c.inner = 8;
  c.multipliers = {1, 2};
  c.blocks = 1;
  c.attention_level = 1;
  c.groups = 4;
  return std::make_unique<NetworkTask>(std::make_unique<diffusion::Sr3Network>(c, 4, at::kCPU, type), s);
}

}  // namespace cirrus::test
