// cirrus-scale plan: what a training run takes of each device, before it is started.
#include "scale/plan.h"

#include <nlohmann/json.hpp>

#include "apps/cirrus-scale/verbs.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/run_options.h"
#include "device/device.h"

namespace cirrus::scale_app {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

struct PlanFlags {
  scale::PlanRequest request;
  std::string device, dtype = "auto";
  std::int64_t world = 1, per_host = 0, lora = 0;
  std::optional<double> memory, tflops, bandwidth, bandwidth_between, efficiency;
  bool average = false, force = false;
  RunOptions run;
};

void register_flags(Options& options, PlanFlags& f) {
  scale::PlanRequest& r = f.request;
  scale::Settings& s = r.settings;
  options.group("Model");
  options
      .add("model", r.model,
           "llama-3.1-8b, llama-3.3-70b, gemma2-27b, tinyllama-1.1b, smollm2-135m, sr3-64-256, edm-base, a training "
           "configuration (.toml) or a Hugging Face config.json")
      .metavar("NAME|FILE")
      .required();
  options.add("batch", s.batch, "samples a device computes at a time (0: one sequence, or the configuration's)")
      .range(0, 1e6);
  options.add("accumulation", s.accumulation, "so many times a step").range(1, 1e6);
  options.add("length", s.length, "tokens of a sequence").range(1, 1e7);
  options.add("lora", f.lora, "rank of adapters beside frozen weights (0: all weights are trained)")
      .metavar("RANK")
      .range(0, 65536);
  options.add("lora_targets", s.lora_targets, "matrices with adapters: q, k, v, o, gate, up, down");
  options.add("flash", s.flash, "attention without a tensor of all pairs");
  options.add("logits_chunk", s.logits_chunk, "tokens whose logits are there at a time (0: all)").range(0, 1e9);
  options.add("average", f.average, "keep a moving average of the weights; the model's own choice by default");
  options.group("Machine");
  options
      .add("device", f.device,
           "v100-16, v100-32, a100-40, a100-80, h100-80, gaudi1, gaudi2, gaudi3, cpu (this machine), or other with "
           "--memory, --tflops and --bandwidth")
      .metavar("NAME")
      .required();
  options.add("world", f.world, "devices in all").metavar("N").range(1, 1e6);
  options.add("ranks_per_host", f.per_host, "of them in a host (0: as the table says)").metavar("N").range(0, 1e6);
  options.add("memory", f.memory, "memory of a device").metavar("GiB").range(0.001);
  options.add("tflops", f.tflops, "peak rate of a device").range(1e-6);
  options.add("efficiency", f.efficiency, "share of that rate that is reached").range(0.001, 1).default_text("0.4");
  options.add("bandwidth", f.bandwidth, "that a device sends at within its host").metavar("GB/s").range(1e-6);
  options.add("bandwidth_between", f.bandwidth_between, "that it sends at between hosts").metavar("GB/s").range(1e-6);
  options.add("link_efficiency", r.link_efficiency, "share of those bandwidths that is reached").range(0.001, 1);
  options.add("reserve", r.reserve, "share of the memory that is left alone").range(0, 0.9);
  options.group("Strategy");
  options.add("parallel", r.strategy, "the strategy that has to fit; otherwise any may")
      .one_of({"none", "ddp", "zero1", "zero2", "zero3", "fsdp", "hybrid"});
  options.add("keep_frozen", r.keep_frozen, "with --parallel: frozen weights stay whole on each device");
  options.add("recompute", r.recompute, "activations are computed twice instead of kept");
  options.add("prefetch", r.prefetch, "the next block's weights travel while one computes");
  options.add("force", f.force, "exit with 0 though nothing fits").flag_only();
  // As add_run_options(), but for --device, which names machines that need not be here, and what nothing is done with.
  options.group("Output");
  options.add("json", f.run.json, "one JSON object on stdout, nothing else there");
  options.add("quiet", f.run.quiet, "results, warnings and errors only").short_flag('q');
  options.add("verbose", f.run.verbose, "more messages").short_flag('v');
  options.add("log", f.run.log, "also write messages and results to this file").metavar("FILE");
  options.add("strict", f.run.strict, "warnings become errors");
  options.group("Device and run");
  options.add("dtype", f.dtype, "arithmetic of the networks; auto: fp32 for sr3 and edm, bf16 else, fp16 on V100")
      .one_of({"auto", "fp32", "bf16", "fp16"});
  options.when_parsed([&f] { log::configure({f.run.quiet, f.run.verbose, f.run.json, f.run.strict, f.run.log}); });
}

/// The device as the table has it, with what was given instead.
scale::PlanDevice device_of(const PlanFlags& f) {
  scale::PlanDevice d;
  if (f.device == "cpu") {
    d.name = "cpu";
    d.full_name = device::cpu().name();
    d.per_host = static_cast<int>(f.world);
    d.memory = static_cast<double>(device::cpu().memory().available) / kGiB / static_cast<double>(f.world);
    d.source = "this machine's free memory, shared by the ranks";
  } else if (f.device == "other") {
    if (!f.memory) throw Error(ExitCode::usage, "--device other needs --memory", "give GiB of a device");
    d.name = d.full_name = "other";
    d.per_host = static_cast<int>(f.world);
  } else {
    d = scale::plan_device(f.device);
  }
  if (f.memory) d.memory = *f.memory;
  if (f.tflops) d.fp32 = d.fp16 = d.bf16 = *f.tflops;
  if (f.bandwidth) {
    d.to_all = *f.bandwidth;
    d.to_each = 0;
  }
  if (f.bandwidth_between) d.between = *f.bandwidth_between;
  return d;
}

at::ScalarType dtype_of(const PlanFlags& f) {
  if (f.dtype != "auto") return f.dtype == "fp32" ? at::kFloat : f.dtype == "bf16" ? at::kBFloat16 : at::kHalf;
  const std::string& m = f.request.model;
  if (m.ends_with(".toml") || m == "sr3-64-256" || m == "edm-base") return at::kFloat;
  return f.device.starts_with("v100") ? at::kHalf : at::kBFloat16;
}

}  // namespace

int plan(const Arguments& arguments) {
  PlanFlags f;
  Options options("cirrus-scale plan",
                  "Memory, traffic and expected time of a training run for every parallel strategy, and which to use. "
                  "Exit code 1 if nothing fits.");
  register_flags(options, f);
  if (!options.parse(arguments)) return 0;
  scale::PlanRequest& r = f.request;
  r.device = device_of(f);
  r.world = static_cast<int>(f.world);
  r.per_host = static_cast<int>(f.per_host);
  r.given_rate = f.tflops || f.efficiency;
  r.efficiency = f.efficiency.value_or(r.efficiency);
  r.settings.dtype = dtype_of(f);
  r.settings.lora_rank = f.lora;
  r.settings.device = f.device == "cpu" ? at::kCPU : at::kMeta;
  if (options.given("average")) r.settings.average = f.average;
  const scale::Plan made = scale::make_plan(r);
  log::print(scale::to_text(made));
  if (f.run.json) log::print_json(scale::to_json(made).dump());
  if (made.refusal.empty()) return 0;
  log::error(made.refusal);
  return f.force ? 0 : static_cast<int>(ExitCode::requirement);
}

}  // namespace cirrus::scale_app
