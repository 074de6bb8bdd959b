// A strategy from sizes and free memory.
#include "train/choose_parallel.h"

#include <algorithm>
#include <cstdlib>

namespace cirrus::train {
namespace {

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The least of all ranks' values.
double least(const dist::World& world, double value) {
  for (const std::string& text : dist::gather_texts(world, std::to_string(value)))
    value = std::min(value, std::strtod(text.c_str(), nullptr));
  return value;
}

TrainingSize size_of_share(Task& task, const dist::World& world, const TrainerOptions& options) {
  const std::int64_t share = ceil_divide(options.batch, world.size);
  TrainingSize size = size_of(task.units(), options, task.activations(ceil_divide(share, options.accumulation)));
  size.inputs = task.batch_bytes(share);
  return size;
}

Ranks ranks_of(const dist::World& world) { return {world.size, world.is_uniform() ? world.local_size : world.size}; }

}  // namespace

double memory_of_rank(Task& task, const device::Device& device, const dist::World& world) {
  double bytes = static_cast<double>(device.memory().available);
  if (device.torch_device().is_cpu()) bytes /= world.local_size;
  for (const dist::Unit& unit : task.units())
    for (const auto& [name, tensor] : unit.tensors)
      if (!tensor.is_meta()) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

Advice choose_parallel(Task& task, const device::Device& device, const dist::World& world,
                       const TrainerOptions& options) {
  const TrainingSize size = size_of_share(task, world, options);
  const double available = least(world, memory_of_rank(task, device, world));
  if (options.parallel.strategy == "auto") return advise(size, options.parallel, ranks_of(world), available);
  Advice asked{options.parallel, plan_memory(size, options.parallel, ranks_of(world)), available, false};
  asked.fits = asked.plan.total() <= available;
  return asked;
}

std::int64_t accumulation_that_fits(Task& task, const dist::World& world, const TrainerOptions& options,
                                    double available) {
  TrainerOptions o = options;
  for (++o.accumulation; o.accumulation * world.size <= o.batch; ++o.accumulation) {
    if (o.batch % o.accumulation != 0) continue;
    const TrainingSize size = size_of_share(task, world, o);
    if (size.activations.units.empty()) return 0;
    if (plan_memory(size, o.parallel, ranks_of(world)).total() <= available) return o.accumulation;
  }
  return 0;
}

}  // namespace cirrus::train
