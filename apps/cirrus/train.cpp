// cirrus train: trains a super-resolution model on synthetic sky as a configuration file says.
#include "train/trainer.h"

#include <nlohmann/json.hpp>

#include "apps/cirrus/machine.h"
#include "apps/cirrus/verbs.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/run_options.h"
#include "device/memory_error.h"
#include "enhance/sr3_task.h"
#include "enhance/training_task.h"
#include "train/choose_parallel.h"

namespace cirrus::app {
namespace {

struct TrainFlags {
  std::string out, data = "synth", parallel = "auto", time_limit, reduce_dtype = "fp32";
  bool resume = false;
  std::string kind = "edm";
  enhance::DenoisingOptions task;
  diffusion::Sr3Config sr3;
  train::TrainerOptions trainer;
  std::int64_t loader_threads = 1;
};

/// "2h", "90min", "30s", "1h30min", bare seconds -> seconds.
double parse_duration(const std::string& text) {
  double total = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t used = 0;
    double value = -1;
    try {
      value = std::stod(text.substr(at), &used);
    } catch (const std::exception&) {
    }
    std::size_t end = at + used;
    while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end]))) ++end;
    const std::string unit = text.substr(at + used, end - at - used);
    const double scale = unit.empty() || unit == "s"    ? 1
                         : unit == "m" || unit == "min" ? 60
                         : unit == "h"                  ? 3600
                         : unit == "d"                  ? 86400
                                                        : -1;
    if (value < 0 || scale < 0 || !std::isfinite(value))
      throw Error(ExitCode::usage, "--time-limit '" + text + "' is not a length of time",
                  "use 90s, 30min, 2h or 1h30min");
    total += value * scale;
    at = end;
  }
  if (!(total > 0))
    throw Error(ExitCode::usage, "--time-limit " + text + " leaves no time", "leave it out for no limit");
  return total;
}

void register_flags(Options& options, TrainFlags& f) {
  options.group("Output");
  options.add("out", f.out, "folder of the run").metavar("DIR").required();
  options.group("Training");
  options.add("resume", f.resume, "go on from the newest checkpoint in --out").flag_only();
  options.add("data", f.data, "training sky: synth").metavar("synth").check([&f] {
    return f.data == "synth" ? "" : "is not supported in this version: only synthetic sky (synth) is";
  });
  options.add("task.init", f.task.init, "model whose weights to start from").flag("init").metavar("NAME|FILE");
  options
      .add(
          "parallel", f.parallel,
          "how the model is spread over ranks: whole (ddp), or optimizer states (zero1), gradients (zero2) and weights "
          "(zero3, fsdp, hybrid) in shards")
      .one_of({"auto", "none", "ddp", "zero1", "zero2", "zero3", "fsdp", "hybrid"});
  options.add("time_limit", f.time_limit, "stop with a checkpoint after this long (exit 75)").metavar("2h");

  options.add("factor", f.task.fields.factor, "upscaling factor").range(2, 16).flag("");
  options.add("network.kind", f.kind, "edm, the product's network, or sr3, that of the published study")
      .one_of({"edm", "sr3"});
  auto& net = f.task.network;
  options.add("network.widths", net.widths, "channels by level").range(1, 4096).check([&net] {
    return net.widths.empty() ? "needs at least one level" : "";
  });
  options.add("network.blocks", net.blocks, "blocks a level, each way").range(1, 64);
  options.add("network.middle_blocks", net.middle_blocks, "blocks at the coarsest level").range(0, 64);
  options.add("network.embedding", net.embedding, "width of the noise-level embedding").range(1, 4096);
  auto& sr3 = f.sr3;
  options.add("sr3.inner", sr3.inner, "channels of the first level").range(2, 4096);
  options.add("sr3.multipliers", sr3.multipliers, "channels of a level over those of the first").range(1, 64);
  options.add("sr3.blocks", sr3.blocks, "residual blocks a level").range(1, 64);
  options
      .add("sr3.attention_level", sr3.attention_level,
           "level whose blocks attend, from 0 (-1: none); the middle always does")
      .range(-1, 8);
  options.add("sr3.groups", sr3.groups, "groups of GroupNorm").range(1, 4096);
  options.add("sr3.dropout", sr3.dropout, "share of activations left out in training").range(0, 0.99);
  options.add("task.augment", f.task.augment, "show samples in all symmetries of the square");
  options.add("task.patch", f.task.patch, "pixels of a training sample a side").range(8, 4096);
  options.add("task.p_mean", f.task.p_mean, "mean of ln sigma").range(-10, 10);
  options.add("task.p_std", f.task.p_std, "spread of ln sigma").range(0.01, 10);
  options.add("task.tail_share", f.task.tail_share, "share of samples at the levels where sampling begins").range(0, 1);
  options.add("task.tail", f.task.tail, "those levels").range(0.01, 1000).interval();
  options.add("task.calibration_fields", f.task.calibration_fields, "fields on which the residual's scale is measured")
      .range(16, 100000);
  auto& fields = f.task.fields;
  options.add("fields.size", fields.size, "pixels of a synthetic field a side").range(32, 8192);
  options.add("fields.usual_beam", fields.usual_beam, "FWHM, in own pixels, of most beams").range(0.5, 10);
  options.add("fields.usual_share", fields.usual_share, "share of fields with the usual beam").range(0, 1);
  options.add("fields.beam_in", fields.beam_in, "range of the low-resolution beam, in its pixels")
      .range(0.5, 20)
      .interval();
  options.add("fields.beam_out", fields.beam_out, "range of the truth's beam, in its pixels").range(0.5, 20).interval();
  options.add("fields.snr", fields.snr, "range of the signal-to-noise ratio in beam mode").range(0.1, 1e6).interval();
  options.add("fields.beam_error", fields.beam_error, "relative error of the beam that is told").range(0, 0.5);
  options.add("fields.noise_error", fields.noise_error, "relative error of the noise that is told").range(0, 1);
  options.add("fields.truth_noise_share", fields.truth_noise_share, "share of skies with noise of their own")
      .range(0, 1);
  options.add("fields.truth_noise", fields.truth_noise, "range of that noise over the map's robust sigma")
      .range(0, 10)
      .interval();
  options.add("fields.window", f.task.pool.window, "fields held at a time").range(1, 1000000);
  options.add("fields.per_step", f.task.pool.fields_per_step, "new fields a step").range(0, 1000);
  options.add("fields.loader_threads", f.loader_threads, "threads that make fields").range(1, 1024);
  auto& t = f.trainer;
  options.add("train.steps", t.steps, "optimizer steps in all").range(1, 1e12);
  options.add("train.batch", t.batch, "samples a step").range(1, 1e6);
  options.add("train.accumulation", t.accumulation, "parts a batch is split into").range(1, 1e6);
  options.add("train.checkpoint_minutes", t.checkpoint_minutes, "time between checkpoints").range(0.01, 1e6);
  options.add("train.checkpoint_steps", t.checkpoint_steps, "also every so many steps (0: by time alone)")
      .range(0, 1e12);
  options.add("train.record_steps", t.record_steps, "steps a line of train.jsonl covers").range(1, 1e9);
  auto& p = t.parallel;
  options.add("train.recompute", p.recompute,
              "compute activations twice instead of keeping them: memory for a third more time");
  options.add("train.prefetch", p.prefetch, "gather the next block's weights while one computes");
  options.add(
      "train.reduce_each_part", p.reduce_each_part,
      "with accumulation, reduce sharded gradients after each part (less memory) or once a step (less traffic)");
  options.add("train.reduce_dtype", f.reduce_dtype, "type in which gradients travel").one_of({"fp32", "bf16"});
  options.add("train.persist", p.persist, "zero3 keeps tensors of fewer elements whole").range(0, 1e12);
  options.add("train.checkpoint_in_background", t.checkpoint_in_background, "go on while a checkpoint is written");
  options.add("train.capture", t.capture, "record a step and replay it, where the device can");
  auto& o = t.optimizer;
  options.add("optimizer.learning_rate", o.learning_rate, "highest learning rate").range(1e-9, 10);
  options.add("optimizer.beta1", o.beta1, "Adam").range(0, 0.99999);
  options.add("optimizer.beta2", o.beta2, "Adam").range(0, 0.99999);
  options.add("optimizer.weight_decay", o.weight_decay, "decoupled weight decay").range(0, 10);
  options.add("optimizer.clip", o.clip, "limit of the gradient's norm (0: none)").range(0, 1e6);
  options.add("optimizer.warmup", o.warmup, "steps of linear increase").range(0, 1e9);
  options.add("optimizer.constant_steps", o.constant_steps, "after so many steps the rate falls as 1/sqrt(step)")
      .range(1, 1e12);
  options
      .add("optimizer.cooldown_share", o.cooldown_share, "last share of the steps, in which the rate falls to its end")
      .range(0, 1);
  options.add("optimizer.final_share", o.final_share, "last rate over the highest").range(0, 1);
  options.add("optimizer.average", o.average,
              "keep a moving average of the weights; else the last ones are the result");
  options.add("optimizer.ema_gamma", o.ema_gamma, "exponent of the weights' power-function average").range(0, 1000);
}

/// The task of the configured network. Throws Error(config) for one that cannot be.
std::unique_ptr<enhance::PatchTask> make_task(const TrainFlags& f, const Machine& machine, bool sketch = false) {
  if (f.kind == "edm") return std::make_unique<enhance::DenoisingTask>(f.task, *machine.device, machine.dtype);
  enhance::Sr3Options options{f.task, f.sr3, sketch};
  try {
    options.network = diffusion::Sr3Config::from_json(f.sr3.to_json());
  } catch (const Error& e) {
    throw Error(ExitCode::config, e.what());
  }
  return std::make_unique<enhance::Sr3Task>(options, *machine.device, machine.dtype);
}

/// A setting of the other kind of network would be without effect. Throws Error(config).
void refuse_settings_of_the_other(const Options& options, const std::string& kind) {
  static const std::map<std::string, std::vector<const char*>> of{
      {"edm",
       {"network.widths", "network.blocks", "network.middle_blocks", "network.embedding", "task.p_mean", "task.p_std",
        "task.tail_share", "task.tail", "task.calibration_fields"}},
      {"sr3", {"sr3.inner", "sr3.multipliers", "sr3.blocks", "sr3.attention_level", "sr3.groups", "sr3.dropout"}}};
  for (const auto& [other, keys] : of)
    for (const char* key : keys)
      if (other != kind && options.given(key))
        throw Error(ExitCode::config,
                    std::string(key) + " is a setting of " + other + " networks, and network.kind is " + kind,
                    "leave it out, or set network.kind = \"" + other + "\"");
}

std::string readable(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, bytes < 1e8 ? "%.1f MB" : "%.2f GB", bytes * (bytes < 1e8 ? 1e-6 : 1e-9));
  return text;
}

/// What a run would be, without making its weights.
void describe(const TrainFlags& f, const Machine& machine, const dist::World& world, const std::string& where) {
  const std::unique_ptr<enhance::PatchTask> task = make_task(f, machine, true);
  const train::Advice a = train::choose_parallel(*task, *machine.device, world, f.trainer);
  train::TrainerOptions settled = f.trainer;
  settled.parallel = a.options;
  train::check_options(settled, world);
  double parameters = 0;
  for (const auto& [name, tensor] : dist::trained(task->units())) parameters += static_cast<double>(tensor.numel());
  if (!world.is_lead()) return;
  const bool average = f.trainer.optimizer.average;
  char size[400];
  std::snprintf(
      size, sizeof size,
      "a network of %.0f parameters: %s for weights, gradients, moments%s; with what a step's %lld samples of "
      "%lld x %lld pixels take, %s at a time by estimate, and %s are free",
      parameters, readable(parameters * (average ? 20 : 16)).c_str(), average ? " and average" : "",
      static_cast<long long>(f.trainer.batch / f.trainer.accumulation / world.size),
      static_cast<long long>(f.task.patch), static_cast<long long>(f.task.patch), readable(a.plan.total()).c_str(),
      readable(a.available).c_str());
  log::print("would train " + std::to_string(f.trainer.steps) + " steps of " + std::to_string(f.trainer.batch) +
             " samples " + where);
  log::print(size);
  if (world.size > 1)
    log::print("each of " + std::to_string(world.size) + " ranks, with " + dist::strategy_name(a.options));
}

train::Outcome train_task(TrainFlags& f, const Options& options, const dist::World& world, const Machine& machine) {
  const std::filesystem::path out = f.out;
  const std::unique_ptr<enhance::PatchTask> task = make_task(f, machine);  // what it refuses costs no old run
  const train::Advice chosen = train::choose_parallel(*task, *machine.device, world, f.trainer);
  f.trainer.parallel = chosen.options;
  train::check_options(f.trainer, world);
  if (world.size > 1)
    log::info(std::to_string(world.size) + " ranks, " + dist::strategy_name(chosen.options) + ", by estimate " +
              readable(chosen.plan.total()) + " each");
  if (!chosen.fits)
    log::warning("By estimate a rank needs " + readable(chosen.plan.total()) + ", and has " +
                 readable(chosen.available) + ": cirrus-scale plan shows what would take less");
  task->share_fields(world);
  if (world.is_lead()) {
    std::error_code error;
    if (!f.resume) std::filesystem::remove_all(out / "checkpoints", error);
    std::filesystem::create_directories(out, error);
    if (error) throw Error(ExitCode::cannot_create, "Cannot make folder " + out.string() + ": " + error.message());
  }
  dist::barrier(world);
  f.trainer.config = options.effective_config();
  return train::run_training(*task, *machine.device, world, f.trainer, out, f.resume);
}

}  // namespace

int train(const Arguments& arguments) {
  TrainFlags f;
  RunOptions run;
  Options options("cirrus train",
                  "Train a super-resolution model on synthetic sky, as a configuration file (configs/train/) says.");
  register_flags(options, f);
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  refuse_settings_of_the_other(options, f.kind);
  f.task.seed = static_cast<std::uint64_t>(run.seed);
  f.task.pool.threads = static_cast<int>(f.loader_threads);
  if (!f.time_limit.empty()) f.trainer.time_limit = parse_duration(f.time_limit);

  const dist::World world = dist::join_world();
  f.trainer.parallel.strategy = f.parallel;
  if (f.reduce_dtype == "bf16") f.trainer.parallel.reduce_type = at::kBFloat16;
  const Machine machine = open_machine(run, world);
  const std::string described = machine.device->name() + ", " + device::dtype_name(machine.dtype) + ", " +
                                std::to_string(machine.threads) + " threads";
  const std::filesystem::path out = f.out;
  const bool exists = !dist::broadcast_text(world, std::filesystem::exists(out / "checkpoints") ? "yes" : "").empty();
  if (!f.resume && exists && !run.overwrite)
    throw Error(ExitCode::cannot_create, out.string() + " already holds a run",
                "add --resume to go on with it, --overwrite to start anew, or choose another --out");
  if (run.dry_run) return describe(f, machine, world, "into " + out.string() + " on " + described), 0;
  log::info("Training on " + described);
  f.trainer.compute = machine.dtype;
  train::Outcome outcome{};
  try {
    outcome = train_task(f, options, world, machine);
  } catch (const std::exception& e) {  // of a step, the trainer says itself what fits
    if (!device::is_out_of_memory(e)) throw;
    throw device::out_of_memory(e, *machine.device, "The network with its gradients and Adam's moments",
                                "use a smaller network, or a device with more memory");
  }
  if (run.json)
    log::print_json(nlohmann::json{{"out", out.string()}, {"finished", outcome == train::Outcome::finished}}.dump());
  if (outcome == train::Outcome::stopped) return static_cast<int>(ExitCode::stopped);
  log::print((out / "model.safetensors").string());
  return 0;
}

}  // namespace cirrus::app
