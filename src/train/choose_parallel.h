// What a run's strategy is expected to take, which one --parallel auto stands for, and what would fit where a step does
// not.
#pragma once

#include "device/device.h"
#include "dist/world.h"
#include "train/memory_plan.h"
#include "train/task.h"

namespace cirrus::train {

/// Bytes this rank may take: free now, or taken by the task's weights. Ranks of a host share that of a CPU.
double memory_of_rank(Task& task, const device::Device& device, const dist::World& world);

/// What options.parallel takes, or, where its strategy is "auto", the first in the order of advise() that fits into the
/// memory of the rank that has least of it. All ranks call it and get the same.
Advice choose_parallel(Task& task, const device::Device& device, const dist::World& world,
                       const TrainerOptions& options);

/// The least accumulation above that of the options with which a step is expected to fit into `available` bytes a rank;
/// 0: none.
std::int64_t accumulation_that_fits(Task& task, const dist::World& world, const TrainerOptions& options,
                                    double available);

}  // namespace cirrus::train
