// How much memory a rank of a training run needs, and what travels in a step, known before it starts: from the sizes of
// a model's units alone, for every strategy of dist/parallel.h. A step is gone through event by event, as
// dist/sharded.cpp and dist/data_parallel.cpp order them, and what is held at the worst moment is the answer; tests
// hold it against counted bytes.
//
// How to choose a strategy before a run (all ranks must get the same `available`, the least of theirs):
//   train::TrainingSize size = train::size_of(task.units(), options, network.activations(side, side, samples, device));
//   train::Advice a = train::advise(size, options.parallel, {world.size, ranks of a host}, available bytes of a rank);
//   if (!a.fits) say a.plan.total() and a.available;  else options.parallel = a.options;
#pragma once

#include "dist/activations.h"
#include "dist/parallel.h"
#include "train/trainer.h"

namespace cirrus::train {

/// A unit as its tensors' numbers of elements.
struct UnitSize {
  std::string name;
  std::vector<std::int64_t> trained, frozen;
};

/// A run as far as memory and traffic depend on it.
struct TrainingSize {
  std::vector<UnitSize> units;          ///< the root first
  dist::ModelActivations activations;   ///< of a part of a rank's batch; empty: unknown, counted as nothing
  double inputs = 0;                    ///< bytes of a rank's batch on the device
  at::ScalarType weights = at::kFloat;  ///< as the optimizer keeps them, its moments and the average
  at::ScalarType used = at::kFloat;  ///< as the network computes with them; gradients too. Else a copy beside weights
  at::ScalarType frozen = at::kFloat;
  bool average = true;
  bool moments = true;  ///< Adam's two
  std::int64_t accumulation = 1;

  std::int64_t trained_elements() const;
  std::int64_t frozen_elements() const;
};

/// What the loop trains with these options. `activations`: of a part of a rank's batch.
TrainingSize size_of(const std::vector<dist::Unit>& units, const TrainerOptions& options,
                     dist::ModelActivations activations = {});

struct Ranks {
  int size = 1;
  int per_host = 1;  ///< hybrid: ranks that share weights
};

/// Bytes of a rank at the moment that takes most.
struct MemoryPlan {
  double weights = 0;      ///< whole, or its shards; frozen ones too
  double copies = 0;       ///< weights once more where they are used in another type than they are kept in
  double moments = 0;      ///< Adam's
  double average = 0;      ///< moving average of the weights
  double gradients = 0;    ///< whole ones and those of shards
  double gathered = 0;     ///< units gathered from shards: the root, the one that computes, the one that comes
  double travelling = 0;   ///< gradients on their way
  double activations = 0;  ///< kept for the backward pass
  double head = 0;         ///< of those, the head's: logits
  double working = 0;      ///< what comes and goes
  double inputs = 0;

  double total() const {
    return weights + copies + moments + average + gradients + gathered + travelling + activations + head + working +
           inputs;
  }
  double checkpoint_copy = 0;  ///< on the host, not counted above: while a checkpoint is written in the background
};

/// `options` as for make_parallel(), with a strategy; `gather_type` undefined stands for size.used.
MemoryPlan plan_memory(const TrainingSize& size, const dist::ParallelOptions& options, const Ranks& ranks);

/// Bytes of one step of a rank, by collective: of whole tensors, and what it sends in rings, as dist::Traffic counts.
struct TrafficPlan {
  struct Kind {
    double bytes = 0, sent = 0;
  };
  Kind all_reduce, all_gather, reduce_scatter;
  Kind across;       ///< of hybrid: all-reduce of shards between hosts; else counted above
  double first = 0;  ///< sent before the first block can begin: what no computation hides
  double sent() const { return all_reduce.sent + all_gather.sent + reduce_scatter.sent + across.sent; }
};
TrafficPlan plan_traffic(const TrainingSize& size, const dist::ParallelOptions& options, const Ranks& ranks);

struct Advice {
  dist::ParallelOptions options;
  MemoryPlan plan;
  double available = 0;
  bool fits = false;
};

/// The strategies in the order in which they are tried: data parallel, then ever more in shards, frozen weights kept
/// whole before they are not. One rank: none. `recompute` of `wanted` is kept; others of its fields too.
std::vector<dist::ParallelOptions> candidates(const TrainingSize& size, const dist::ParallelOptions& wanted,
                                              const Ranks& ranks);

/// The first of candidates() that fits into `available` bytes a rank; if none does, the same with recomputation, where
/// units have activations; if none does either, the one that needs least, with `fits` false.
Advice advise(const TrainingSize& size, const dist::ParallelOptions& wanted, const Ranks& ranks, double available);

}  // namespace cirrus::train
