// Steps, checkpoints and sums of one training run.
#include "train/run.h"

#include <c10/core/GradMode.h>
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/safetensors.h"
#include "device/memory_error.h"
#include "train/choose_parallel.h"
#include "train/records.h"

namespace cirrus::train {
namespace {

constexpr std::int64_t kWarmSteps = 3;
constexpr double kCopyShare = 0.25;  // of the free memory that a checkpoint's copy may take

}  // namespace

Share share_of(std::int64_t count, std::int64_t parts, std::int64_t index) {
  const std::int64_t base = count / parts, extra = count % parts;
  return {index * base + std::min(index, extra), base + (index < extra ? 1 : 0)};
}

Run::Run(Task& task, device::Device& device, const TrainerOptions& options, const std::filesystem::path& out,
         const dist::World& world)
    : task_(task),
      device_(device),
      options_(options),
      out_(out),
      world_(world),
      share_(share_of(options.batch, world.size, world.rank)),
      available_(memory_of_rank(task, device, world)),
      parallel_(dist::make_parallel(task.units(), options.parallel, world, device)),
      optimizer_(options.optimizer, parallel_->weights(), device, options.compute),
      writer_(out / "checkpoints", world, options.keep),
      unit_rows_(task.unit_rows()),
      losses_(at::zeros({}, at::TensorOptions(device.torch_device()).dtype(at::kFloat))),
      norm_(at::zeros_like(losses_)) {
  task_.run_units_on(&parallel_->runner());
  if (options.parallel.strategy != "none" && options.parallel.strategy != "ddp")
    combine_ = Combine{[this](const at::Tensor& t) { parallel_->combine(t, dist::Reduce::sum); },
                       [this](const at::Tensor& t) { parallel_->combine(t, dist::Reduce::max); }};
}

Run::~Run() { task_.run_units_on(nullptr); }

Run::Kinds Run::kinds() {
  Kinds all{{"model.", &parallel_->weights()},
            {"adam.m.", &optimizer_.first_moments()},
            {"adam.v.", &optimizer_.second_moments()}};
  if (options_.optimizer.average) all.emplace_back("ema.", &optimizer_.averaged());
  return all;
}

void Run::restore(const dist::CheckpointReader& reader) {
  const dist::Checkpoint& c = reader.checkpoint();
  if (c.config_sha256 != fingerprint())
    throw Error(ExitCode::config,
                "The checkpoint at step " + std::to_string(c.step) + " in " + out_.string() +
                    " was made with another configuration",
                "resume with the configuration of that run (steps, cooldown, checkpoint and parallel settings may "
                "change), or use a new --out");
  task_.prepare(&c.state);
  const std::string before = c.state.value("compute", ""), now = device::dtype_name(options_.compute);
  if (before != now) log::warning("The run computed in " + before + " so far, and goes on in " + now);
  c10::NoGradGuard no_grad;
  parallel_->finish();
  for (const auto& [kind, tensors] : kinds())
    for (const dist::Piece& piece : parallel_->pieces()) {
      const dist::Parameter& p = parallel_->parameters()[piece.parameter];
      reader.read(kind + p.name, p, piece.begin,
                  dist::in_memory_order((*tensors)[piece.tensor]).narrow(0, piece.offset, piece.end - piece.begin));
    }
  parallel_->weights_changed();
  step_ = c.step;
  samples_ = c.samples;
  const at::Tensor unread = reader.read("record");
  if (unread.numel() != 2)
    throw Error(ExitCode::bad_data, reader.folder().string() + ": tensor 'record' is not two numbers");
  if (world_.is_lead()) losses_.fill_(unread[0]);
  recorded_ = c.step - unread[1].to(at::kLong).item<std::int64_t>();
  double adam_steps = static_cast<double>(c.step);
  if (optimizer_.loss_scale()) {
    optimizer_.loss_scale()->restore(reader.read("loss_scale"));
    adam_steps = reader.read("adam.steps").item<double>();
  }
  optimizer_.set_updates(c.step, adam_steps);
}

void Run::save(bool last) {
  const double started = steady_seconds();
  dist::Checkpoint c;
  c.step = step_;
  c.samples = samples_;
  c.strategy = options_.parallel.strategy;
  c.config_sha256 = fingerprint();
  c.state = task_.state();
  c.state["compute"] = device::dtype_name(options_.compute);
  std::vector<dist::Slice> slices;
  double bytes = 0;
  for (const auto& [kind, tensors] : kinds())
    for (const dist::Piece& piece : parallel_->pieces()) {
      if (!parallel_->owns(piece)) continue;
      const dist::Parameter& p = parallel_->parameters()[piece.parameter];
      slices.push_back(
          {kind + p.name, p, piece.begin,
           dist::in_memory_order((*tensors)[piece.tensor]).narrow(0, piece.offset, piece.end - piece.begin)});
      bytes += static_cast<double>(slices.back().elements.nbytes());
    }
  const double loss = total_loss();
  if (world_.is_lead()) {
    slices.push_back(dist::whole_slice("record", at::tensor({loss, static_cast<double>(step_ - recorded_)})));
    if (optimizer_.loss_scale()) {
      slices.push_back(dist::whole_slice("loss_scale", optimizer_.loss_scale()->state()));
      slices.push_back(dist::whole_slice("adam.steps", optimizer_.adam_steps()));
    }
  }
  const bool room = bytes < kCopyShare * static_cast<double>(device::cpu().memory().available);
  writer_.save(c, slices, !last && options_.checkpoint_in_background && room);
  write_results();
  save_seconds_ = std::max(steady_seconds() - started, writer_.last_seconds());
}

void Run::write_results() {
  std::optional<SafetensorsWriter> file;
  if (world_.is_lead()) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const dist::Parameter& p : parallel_->parameters())
      entries.push_back({p.name, dist::dtype_code(p.type), p.shape});
    file.emplace(out_ / "model.safetensors", entries, task_.model_metadata(step_, samples_), true);
  }
  parallel_->consolidate(optimizer_.averaged(), [&](std::size_t, const at::Tensor& whole) {
    const at::Tensor rows = whole.contiguous();
    file->write({static_cast<const std::byte*>(rows.data_ptr()), rows.nbytes()});
  });
  if (!world_.is_lead()) return;
  file->commit();
  draw_curves(out_ / "train.jsonl", out_ / "curves.svg");
}

void Run::advance() {
  is_loaded_ = false;
  task_.load(step_, share_.first, share_.count, options_.batch);
  is_loaded_ = true;
  terms_ = task_.terms(0, share_.count);
  if (terms_ >= 0) {
    std::vector<double> total{terms_};
    dist::sum_over_ranks(world_, total);
    terms_ = total[0];
  }
  optimizer_.schedule(learning_rate(options_.optimizer, step_, options_.steps));
  const bool recordable = options_.capture && options_.parallel.strategy == "none" && terms_ < 0;
  if (recordable && !tried_ && eager_steps_ == kWarmSteps) {
    tried_ = true;
    graph_ = device_.capture([this] { compute(); });
    if (!graph_) parallel_->forget_gradients();  // a recording that failed leaves some that nothing computed
  }
  if (graph_) {
    graph_->replay();
  } else {
    compute();
    ++eager_steps_;
    say_unused();
  }
  ++step_;
  samples_ += options_.batch;
}

/// The work of a step on the device, and nothing but that.
void Run::compute() {
  const std::int64_t parts = options_.accumulation;
  for (std::int64_t i = 0; i < parts; ++i) {
    const Share part = share_of(share_.count, parts, i);
    parallel_->begin_part(i + 1 == parts);
    const double weight = terms_ >= 0 ? task_.terms(part.first, part.count) / terms_
                                      : static_cast<double>(part.count) / static_cast<double>(options_.batch);
    const at::Tensor loss = task_.loss(part.first, part.count) * weight;
    parallel_->backward(optimizer_.scaled(loss));
    losses_.add_(loss.detach());
    device_.end_step();
  }
  norm_.copy_(optimizer_.step(parallel_->gradients(), combine_ ? &*combine_ : nullptr));
  parallel_->forget_gradients();
  parallel_->force_unit_rows(unit_rows_);
  task_.after_update();
  optimizer_.average();
  parallel_->weights_changed();
  device_.end_step();
}

std::string Run::what_fits() const {
  if (!is_loaded_) return "the samples themselves do not fit: use a smaller --set train.batch";
  // A tenth is for what estimates do not know.
  const std::int64_t parts = accumulation_that_fits(task_, world_, options_, 0.9 * available_);
  if (parts > 0)
    return "by estimate, parts of " + std::to_string(options_.batch / parts / world_.size) +
           " samples fit: --set train.accumulation=" + std::to_string(parts);
  const dist::ParallelOptions& p = options_.parallel;
  std::string advice;
  if (!p.recompute && task_.units().size() > 1) advice = "try --set train.recompute=true, ";
  if (world_.size > 1 && (p.strategy == "ddp" || p.strategy.starts_with("zero"))) advice += "try --parallel fsdp, ";
  return advice + "use a smaller network or patch, or a device with more memory";
}

void Run::say_unused() {
  if (said_unused_ || parallel_->unused().empty()) return;
  said_unused_ = true;
  std::string names;
  const std::vector<std::string>& all = parallel_->unused();
  for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 5); ++i) names += (i > 0 ? ", " : "") + all[i];
  if (all.size() > 5) names += " and " + std::to_string(all.size() - 5) + " more";
  log::warning("Parameters without a gradient in step " + std::to_string(step_) + ", which counts as zero: " + names);
}

double Run::total_loss() {
  std::vector<double> total{losses_.item<double>()};
  dist::sum_over_ranks(world_, total);
  return total[0];
}

std::pair<double, double> Run::read() {
  const double loss = total_loss() / static_cast<double>(step_ - recorded_), norm = norm_.item<double>();
  require_finite(loss, norm);
  losses_.zero_();
  recorded_ = step_;
  return {loss, norm};
}

void Run::require_finite() { require_finite(total_loss(), norm_.item<double>()); }

void Run::require_finite(double loss, double norm) const {
  if (!std::isfinite(loss) || !std::isfinite(norm))
    throw Error(ExitCode::internal, "Loss or gradient is no longer finite at step " + std::to_string(step_),
                "start anew with a lower optimizer.learning_rate");
}

std::string Run::fingerprint() const {
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

}  // namespace cirrus::train
