// Opening the device and the model; see machine.h.
#include "apps/cirrus/machine.h"

#include <ATen/Parallel.h>

#include "base/errors.h"
#include "base/log.h"
#include "device/placement.h"

namespace cirrus::app {

Machine open_machine(const RunOptions& run) {
  Machine machine;
  machine.device = device::open_device(run.device);
  machine.dtype = device::resolve_dtype(run.dtype, *machine.device);
  machine.threads = resolve_threads(run.threads);
  at::set_num_threads(machine.threads);
  return machine;
}

Machine open_machine(const RunOptions& run, const dist::World& world) {
  RunOptions own = run;
  own.device = device::choose_device(run.device, {world.rank, world.size, world.local_rank, world.local_size});
  Machine machine = open_machine(own);
  if (world.size == 1) return machine;
  const at::Device opened = machine.device->torch_device();
  const std::string kind = c10::DeviceTypeName(opened.type(), true);
  const std::vector<std::string> kinds = dist::gather_texts(world, kind);
  for (std::size_t rank = 0; rank < kinds.size(); ++rank)
    if (kinds[rank] != kinds[0])
      throw Error(ExitCode::unavailable,
                  "Rank 0 computes on " + kinds[0] + " and rank " + std::to_string(rank) + " on " + kinds[rank],
                  "name one kind with --device, and run on hosts that all have it");
  for (const std::string& dtype : dist::gather_texts(world, device::dtype_name(machine.dtype)))
    if (dtype != device::dtype_name(machine.dtype)) machine.dtype = at::kFloat;  // "auto" on unlike hosts
  const std::string threads = std::to_string(machine.threads) + (machine.threads == 1 ? " thread" : " threads");
  dist::show_ranks(world, opened.is_cpu() ? "cpu, " + threads : opened.str() + " " + machine.device->name(),
                   machine.device->identity());
  return machine;
}

enhance::Model open_model(const std::string& name, std::int64_t factor, bool factor_given, const Machine& machine) {
  enhance::Model model = enhance::load_model(enhance::find_model(name, factor), *machine.device, machine.dtype);
  if (factor_given && model.factor != factor)
    throw Error(
        ExitCode::usage,
        "Model " + model.name + " upscales by " + std::to_string(model.factor) + ", not by " + std::to_string(factor),
        "choose the model or the factor, not both");
  return model;
}

void check_sampler(const diffusion::SamplerOptions& sampler, const enhance::Model& model, bool steps_given) {
  if (sampler.churn > 0 && sampler.name != "euler" && sampler.name != "heun")
    throw Error(ExitCode::usage, "--churn has no meaning for --sampler " + sampler.name, "use euler or heun");
  if (sampler.name != "ddpm") return;
  if (steps_given) log::warning("--sampler ddpm takes 2000 steps: --steps has no effect");
  if (model.kind != "sr3")
    throw Error(ExitCode::usage,
                "--sampler ddpm is for sr3 networks; model " + model.name + " is an " + model.kind + " one",
                "use dpmpp, heun or euler");
}

}  // namespace cirrus::app
