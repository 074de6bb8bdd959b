// The training loop.
#include "train/trainer.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/signals.h"
#include "device/memory_error.h"
#include "dist/checkpoint.h"
#include "train/records.h"

namespace cirrus::train {

nlohmann::json Task::state() const { return nlohmann::json::object(); }
void Task::prepare(const nlohmann::json*) {}

namespace {

namespace fs = std::filesystem;

/// Everything a run holds between steps, and how it goes to and from a checkpoint.
class Run {
public:
  Run(Task& task, device::Device& device, const TrainerOptions& options, const fs::path& out, const dist::World& world)
      : task_(task),
        device_(device),
        options_(options),
        out_(out),
        world_(world),
        named_(task.parameters()),
        optimizer_(options.optimizer, tensors(), device, options.compute),
        losses_(at::zeros({}, at::TensorOptions(device.torch_device()).dtype(at::kFloat))),
        norm_(at::zeros_like(losses_)) {}

  void restore(const dist::Checkpoint& c) {
    if (c.config_sha256 != fingerprint())
      throw Error(ExitCode::config,
                  "The checkpoint at step " + std::to_string(c.step) + " in " + out_.string() +
                      " was made with another configuration",
                  "resume with the configuration of that run (steps, cooldown and checkpoint settings may change), or "
                  "use a new --out");
    task_.prepare(&c.state);
    const std::string before = c.state.value("compute", ""), now = device::dtype_name(options_.compute);
    if (before != now) log::warning("The run computed in " + before + " so far, and goes on in " + now);
    c10::NoGradGuard no_grad;
    const dist::TensorFile file{c.tensors, {}, out_.string()};
    for (std::size_t i = 0; i < named_.size(); ++i) {
      const auto& [name, parameter] = named_[i];
      parameter.detach().copy_(file.get("model." + name, parameter.sizes()));
      optimizer_.first_moments()[i].copy_(file.get("adam.m." + name, parameter.sizes()));
      optimizer_.second_moments()[i].copy_(file.get("adam.v." + name, parameter.sizes()));
      if (options_.optimizer.average)
        optimizer_.averaged_for_loading()[i].copy_(file.get("ema." + name, parameter.sizes()));
    }
    step_ = c.step;
    samples_ = c.samples;
    const at::Tensor unread = file.get("record", {2});
    losses_.fill_(unread[0]);
    recorded_ = c.step - unread[1].item<std::int64_t>();
    double adam_steps = static_cast<double>(c.step);
    if (optimizer_.loss_scale()) {
      optimizer_.loss_scale()->restore(file.get("loss_scale", {2}));
      adam_steps = file.get("adam.steps", {}).item<double>();
    }
    optimizer_.set_updates(c.step, adam_steps);
  }

  void save() {
    dist::Checkpoint c;
    c.step = step_;
    c.samples = samples_;
    c.config_sha256 = fingerprint();
    c.state = task_.state();
    c.state["compute"] = device::dtype_name(options_.compute);
    for (std::size_t i = 0; i < named_.size(); ++i) {
      c.tensors.emplace_back("model." + named_[i].first, named_[i].second);
      c.tensors.emplace_back("adam.m." + named_[i].first, optimizer_.first_moments()[i]);
      c.tensors.emplace_back("adam.v." + named_[i].first, optimizer_.second_moments()[i]);
      if (options_.optimizer.average) c.tensors.emplace_back("ema." + named_[i].first, optimizer_.averaged()[i]);
    }
    c.tensors.emplace_back("record", at::tensor({losses_.item<double>(), static_cast<double>(step_ - recorded_)}));
    if (optimizer_.loss_scale()) {
      c.tensors.emplace_back("loss_scale", optimizer_.loss_scale()->state());
      c.tensors.emplace_back("adam.steps", optimizer_.adam_steps());
    }
    const fs::path folder = dist::save_checkpoint(out_ / "checkpoints", c, world_, options_.keep);
    log::info("Step " + std::to_string(step_) + ": checkpoint " + folder.string());
    write_results();
  }

  /// The averaged model and the curves, as of this step.
  void write_results() {
    task_.save_model((out_ / "model.safetensors").string(), optimizer_.averaged(), step_, samples_);
    draw_curves(out_ / "train.jsonl", out_ / "curves.svg");
  }

  /// One optimizer step: replayed where the device has recorded one, which it does once libraries are warm.
  void advance() {
    task_.load(step_, 0, options_.batch, options_.batch);
    optimizer_.schedule(learning_rate(options_.optimizer, step_, options_.steps));
    if (options_.capture && !tried_ && eager_steps_ == kWarmSteps) {
      tried_ = true;
      graph_ = device_.capture([this] { compute(options_.accumulation); });
      if (!graph_) optimizer_.forget_gradients();  // a recording that failed leaves some that nothing computed
    }
    if (graph_) {
      graph_->replay();
    } else {
      compute(options_.accumulation);
      ++eager_steps_;
    }
    ++step_;
    samples_ += options_.batch;
  }

  /// What to say when a step does not fit into the device's memory: the largest parts of a batch that do, tried out by
  /// whole steps. This run is over: they may change its weights.
  std::string what_fits() {
    graph_.reset();
    for (std::int64_t parts = options_.accumulation + 1; parts <= options_.batch; ++parts) {
      if (options_.batch % parts != 0) continue;
      optimizer_.forget_gradients();
      try {
        task_.load(step_, 0, options_.batch, options_.batch);
        compute(parts);
        device_.synchronize();
      } catch (const std::exception& e) {
        if (!device::is_out_of_memory(e)) throw;
        continue;
      }
      return "parts of " + std::to_string(options_.batch / parts) +
             " samples fit: --set train.accumulation=" + std::to_string(parts);
    }
    return "not even one sample fits: use a smaller network or patch, or a device with more memory";
  }

  /// Mean loss since the last record, also across a stop, and the last step's gradient norm; waits for the device.
  std::pair<double, double> read() {
    const double loss = losses_.item<double>() / static_cast<double>(step_ - recorded_), norm = norm_.item<double>();
    require_finite(loss, norm);
    losses_.zero_();
    recorded_ = step_;
    return {loss, norm};
  }
  void require_finite() const { require_finite(losses_.item<double>(), norm_.item<double>()); }

  std::int64_t step() const { return step_; }
  std::int64_t samples() const { return samples_; }

private:
  static constexpr std::int64_t kWarmSteps = 3;

  /// The work of a step on the device, its batch in so many parts, and nothing but that.
  void compute(std::int64_t parts) {
    const std::int64_t size = options_.batch / parts;
    for (std::int64_t part = 0; part < parts; ++part) {
      const at::Tensor loss = task_.loss(part * size, size) / static_cast<double>(parts);
      torch::autograd::backward({optimizer_.scaled(loss)}, {});
      losses_.add_(loss.detach());
      device_.end_step();
    }
    norm_.copy_(optimizer_.step());
    task_.after_update();
    optimizer_.average();
    device_.end_step();
  }

  /// Throws before a broken state reaches a record or a checkpoint.
  void require_finite(double loss, double norm) const {
    if (!std::isfinite(loss) || !std::isfinite(norm))
      throw Error(ExitCode::internal, "Loss or gradient is no longer finite at step " + std::to_string(step_),
                  "start anew with a lower optimizer.learning_rate");
  }

  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> out;
    for (const auto& [name, tensor] : named_) out.push_back(tensor);
    return out;
  }
  std::string fingerprint() const {
    const OptimizerOptions& o = options_.optimizer;
    const nlohmann::json fixed{{"task", task_.fingerprint()},
                               {"batch", options_.batch},
                               {"learning_rate", o.learning_rate},
                               {"beta1", o.beta1},
                               {"beta2", o.beta2},
                               {"epsilon", o.epsilon},
                               {"weight_decay", o.weight_decay},
                               {"clip", o.clip},
                               {"warmup", o.warmup},
                               {"ema_gamma", o.ema_gamma}};
    return sha256(fixed.dump());
  }

  Task& task_;
  device::Device& device_;
  const TrainerOptions& options_;
  const fs::path out_;
  const dist::World& world_;
  std::vector<std::pair<std::string, at::Tensor>> named_;
  Optimizer optimizer_;
  at::Tensor losses_, norm_;  ///< on the device: sum of the losses that were not read yet, the last gradient norm
  std::unique_ptr<device::Graph> graph_;
  bool tried_ = false;  ///< to record a step
  std::int64_t eager_steps_ = 0, step_ = 0, samples_ = 0, recorded_ = 0;
};

}  // namespace

void check_options(const TrainerOptions& o) {
  if (o.batch < 1 || o.accumulation < 1 || o.batch % o.accumulation != 0)
    throw Error(ExitCode::config, "batch (" + std::to_string(o.batch) + ") must be a multiple of accumulation (" +
                                      std::to_string(o.accumulation) + ")");
}

Outcome run_training(Task& task, device::Device& device, const dist::World& world, const TrainerOptions& options,
                     const fs::path& out, bool resume) {
  const double started = steady_seconds();
  check_options(options);
  dist::require_single(world, "Training");
  Run run(task, device, options, out, world);
  const auto checkpoint = resume ? dist::load_newest_checkpoint(out / "checkpoints") : std::nullopt;
  if (checkpoint) {
    run.restore(*checkpoint);
    log::info("Resuming from step " + std::to_string(run.step()));
  } else {
    if (resume) log::warning("No checkpoint in " + (out / "checkpoints").string() + ": starting from step 0");
    task.prepare(nullptr);
  }
  if (!options.config.empty()) write_text(out / "config.toml", options.config, true);
  RecordFile records(out / "train.jsonl", run.step());
  std::optional<Progress> progress;  // begins with the first step: its set-up says nothing of the rate
  double last_checkpoint = started, record_start = steady_seconds(), data_seconds = 0;
  std::int64_t timed = run.step(), saved = run.step() > 0 ? run.step() : -1;
  const auto save = [&] {
    run.require_finite();
    run.save();
    saved = run.step();
    last_checkpoint = steady_seconds();
  };

  while (run.step() < options.steps) {
    const double before = steady_seconds();
    const bool out_of_time = options.time_limit > 0 && before - started > options.time_limit;
    if (!out_of_time && signals::stop_requested() == 0) task.begin_step(run.step());
    if (out_of_time || signals::stop_requested() != 0) {
      if (run.step() != saved) save();
      log::info(std::string(out_of_time ? "Time limit reached" : "Stop requested") + " at step " +
                std::to_string(run.step()) + " of " + std::to_string(options.steps) + ": resume with --resume");
      return Outcome::stopped;
    }
    data_seconds += steady_seconds() - before;
    if (!progress) progress.emplace("training", options.steps - run.step(), "steps");
    try {
      run.advance();
    } catch (const std::exception& e) {
      if (!device::is_out_of_memory(e)) throw;
      throw device::out_of_memory(
          e, device, "A step of " + std::to_string(options.batch / options.accumulation) + " samples", run.what_fits());
    }
    progress->advance();
    if (run.step() % options.record_steps == 0 || run.step() == options.steps) {
      const auto [loss, norm] = run.read();  // waits for the device: time is read after it
      const double n = static_cast<double>(run.step() - timed), seconds = steady_seconds() - record_start;
      Record r{run.step(),
               run.samples(),
               loss,
               learning_rate(options.optimizer, run.step() - 1, options.steps),
               norm,
               n * static_cast<double>(options.batch) / seconds,
               data_seconds / n,
               seconds / n};
      records.write(r);
      timed = run.step();
      data_seconds = 0;
      record_start = steady_seconds();
    }
    const bool due = steady_seconds() - last_checkpoint > 60 * options.checkpoint_minutes ||
                     (options.checkpoint_steps > 0 && run.step() % options.checkpoint_steps == 0);
    if (due && run.step() < options.steps) save();
  }
  if (run.step() != saved) {
    save();
  } else {
    run.write_results();  // the run that wrote this checkpoint may have been killed before it wrote the model
  }
  return Outcome::finished;
}

}  // namespace cirrus::train
