// Opening the device and the model; see machine.h.
#include "apps/cirrus/machine.h"

#include <ATen/Parallel.h>

#include "base/errors.h"
#include "base/log.h"

namespace cirrus::app {

Machine open_machine(const RunOptions& run) {
  Machine machine;
  machine.device = device::open_device(run.device);
  machine.dtype = device::resolve_dtype(run.dtype, *machine.device);
  machine.threads = resolve_threads(run.threads);
  at::set_num_threads(machine.threads);
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
