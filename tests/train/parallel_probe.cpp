// A program that tests start with several ranks: trains a small task under a parallel strategy into a folder, prints
// what travelled and what was live as one JSON line.
//   parallel_probe OUT TASK key=value...
// TASK: blocks, edm, sr3. Keys: strategy, steps, batch, accumulation, type (fp64, fp32), recompute, keep_frozen, prefetch,
// each_part, frozen, unused, unequal, blocks, width, resume, every (steps between checkpoints), background, gather, reduce
// (bf16), slow (seconds a step waits), kill (rank@step), term (rank@step), persist.
#include <ATen/Parallel.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/errors.h"
#include "base/log.h"
#include "base/program.h"
#include "diffusion/edm_network.h"
#include "diffusion/sr3_network.h"
#include "tests/diffusion/small_network.h"
#include "tests/train/blocks_task.h"
#include "train/run.h"

using namespace cirrus;

namespace {

/// A network on addressed batches.
class NetworkTask : public train::Task {
public:
  NetworkTask(std::unique_ptr<diffusion::Denoiser> network, at::ScalarType type)
      : network_(std::move(network)), type_(type) {
    for (const diffusion::NamedTensor& p : network_->parameters()) {
      p.tensor.set_data(p.tensor.to(type));
      p.tensor.requires_grad_(true);
    }
    network_->weights_changed();
  }
  std::vector<dist::Unit> units() override { return network_->units(); }
  void run_units_on(dist::UnitRunner* runner) override { network_->run_units_on(runner); }
  std::vector<std::string> unit_rows() override { return network_->unit_rows(); }
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
  at::Tensor x0_, noise_, sigma_, maps_, scalars_, samples_;
};

std::unique_ptr<train::Task> make_task(const std::string& kind, const test::BlocksOptions& blocks) {
  if (kind == "blocks") return std::make_unique<test::BlocksTask>(blocks);
  if (kind == "edm") {
    diffusion::EdmConfig c = test::small_config();
    c.widths = {8, 16};
    auto network = std::make_unique<diffusion::EdmNetwork>(c, 3, at::kCPU, blocks.type);
    diffusion::perturb_gains(*network, 0.5);
    network->after_update();
    return std::make_unique<NetworkTask>(std::move(network), blocks.type);
  }
  diffusion::Sr3Config c;
  c.inner = 8;
  c.multipliers = {1, 2};
  c.blocks = 1;
  c.attention_level = 1;
  c.groups = 4;
  return std::make_unique<NetworkTask>(std::make_unique<diffusion::Sr3Network>(c, 4, at::kCPU, blocks.type),
                                       blocks.type);
}

/// What the loop asks of a task, plus what a test does to a rank at a step.
class Disturbed : public train::Task {
public:
  Disturbed(std::unique_ptr<train::Task> task, std::function<void(std::int64_t)> at_step)
      : task_(std::move(task)), at_step_(std::move(at_step)) {}
  std::vector<dist::Unit> units() override { return task_->units(); }
  void run_units_on(dist::UnitRunner* runner) override { task_->run_units_on(runner); }
  std::vector<std::string> unit_rows() override { return task_->unit_rows(); }
  void begin_step(std::int64_t step) override {
    at_step_(step);
    task_->begin_step(step);
  }
  void load(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) override {
    task_->load(step, first, count, batch);
  }
  at::Tensor loss(std::int64_t begin, std::int64_t count) override { return task_->loss(begin, count); }
  double terms(std::int64_t begin, std::int64_t count) override { return task_->terms(begin, count); }
  void after_update() override { task_->after_update(); }
  std::map<std::string, std::string> model_metadata(std::int64_t a, std::int64_t b) override {
    return task_->model_metadata(a, b);
  }
  std::string fingerprint() const override { return task_->fingerprint(); }

private:
  std::unique_ptr<train::Task> task_;
  std::function<void(std::int64_t)> at_step_;
};

nlohmann::json to_json(const dist::Traffic::Kind& k) { return {{"calls", k.calls}, {"bytes", k.bytes}, {"sent", k.sent}}; }

int probe(const Arguments& arguments) {
  std::map<std::string, std::string> given;
  for (std::size_t i = 2; i < arguments.words.size(); ++i) {
    const std::string& word = arguments.words[i];
    given[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  const auto text = [&](const char* key, const char* otherwise) {
    return given.contains(key) ? given.at(key) : std::string(otherwise);
  };
  const auto number = [&](const char* key, double otherwise) {
    return given.contains(key) ? std::stod(given.at(key)) : otherwise;
  };
  const auto yes = [&](const char* key, bool otherwise = false) { return number(key, otherwise ? 1 : 0) != 0; };
  const auto type = [](const std::string& name) {
    return name == "fp64" ? at::kDouble : name == "fp32" ? at::kFloat : name == "bf16" ? at::kBFloat16 : at::ScalarType::Undefined;
  };
  at::set_num_threads(1);
  const dist::World world = dist::join_world();
  test::BlocksOptions blocks;
  blocks.blocks = static_cast<std::int64_t>(number("blocks", 16));
  blocks.width = static_cast<std::int64_t>(number("width", 16));
  blocks.type = type(text("type", "fp64"));
  blocks.frozen = yes("frozen");
  blocks.unused = yes("unused");
  blocks.unequal = yes("unequal");
  train::TrainerOptions o;
  o.steps = static_cast<std::int64_t>(number("steps", 20));
  o.batch = static_cast<std::int64_t>(number("batch", 4));
  o.accumulation = static_cast<std::int64_t>(number("accumulation", 1));
  o.optimizer.learning_rate = 0.003;
  o.optimizer.warmup = 3;
  o.optimizer.cooldown_share = 0;
  o.optimizer.clip = number("clip", 0.5);
  o.optimizer.weight_decay = 0.01;
  o.optimizer.average = yes("average", true);
  o.compute = blocks.type;
  o.record_steps = 1;
  o.checkpoint_steps = static_cast<std::int64_t>(number("every", 0));
  o.checkpoint_in_background = yes("background", true);
  o.parallel.strategy = text("strategy", world.size > 1 ? "ddp" : "none");
  o.parallel.recompute = yes("recompute");
  o.parallel.keep_frozen = yes("keep_frozen");
  o.parallel.prefetch = yes("prefetch", true);
  o.parallel.reduce_each_part = yes("each_part", true);
  o.parallel.gather_type = type(text("gather", ""));
  o.parallel.reduce_type = type(text("reduce", ""));
  o.parallel.persist = static_cast<std::int64_t>(number("persist", 200));
  const auto here = [&](const char* key, std::int64_t step) {
    return text(key, "") == std::to_string(world.rank) + "@" + std::to_string(step);
  };
  Disturbed task(make_task(arguments.words.at(1), blocks), [&](std::int64_t step) {
    if (here("kill", step)) raise(SIGKILL);
    if (here("term", step)) raise(SIGTERM);
    if (yes("slow")) std::this_thread::sleep_for(std::chrono::duration<double>(number("slow", 0)));
  });
  const std::filesystem::path out = arguments.words.at(0);
  std::ofstream(out / ("pid-" + std::to_string(world.rank))) << getpid() << std::endl;
  if (yes("measure")) {  // one step at a time, without the loop
    train::Run run(task, device::cpu(), o, out, world);
    for (std::int64_t s = 0; s < o.steps; ++s) {
      if (s + 1 == o.steps) run.parallel().reset_traffic();
      task.begin_step(s);
      run.advance();
    }
    run.parallel().finish();
    const dist::Traffic t = run.parallel().traffic();
    log::print(nlohmann::json{{"all_reduce", to_json(t.all_reduce)},
                              {"all_gather", to_json(t.all_gather)},
                              {"reduce_scatter", to_json(t.reduce_scatter)},
                              {"peak_live", run.parallel().peak_live_bytes()},
                              {"peak_memory", device::cpu().memory().peak_used}}
                   .dump());
    return 0;
  }
  const train::Outcome outcome = train::run_training(task, device::cpu(), world, o, out, yes("resume"));
  return outcome == train::Outcome::stopped ? static_cast<int>(ExitCode::stopped) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<const char*> words{argv[0], "probe"};
  for (int i = 1; i < argc; ++i) words.push_back(argv[i]);
  return run_program({"parallel_probe", "for tests", {{"probe", "for tests", probe}}, ""},
                     static_cast<int>(words.size()), words.data());
}
