// Opening the device and the model; see machine.h.
#include "apps/cirrus/machine.h"

#include <ATen/Parallel.h>

#include "base/errors.h"

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

}  // namespace cirrus::app
