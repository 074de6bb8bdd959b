// How a model is spread over ranks while it trains: whole on each (none, ddp), or with optimizer states, gradients and
// weights in shards (zero1, zero2, zero3, fsdp, hybrid). A trainer sees the same few calls in each case: tensors to
// update, their gradients, and when what happens. Losses are parts of one global mean, so gradients are summed.
//
// Sources: Rajbhandari et al. 2020 (arXiv 1910.02054) for ZeRO; Zhao et al. 2023 (arXiv 2304.11277) for FSDP; Li et al.
// 2020 (arXiv 2006.15704) for data parallel with buckets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "dist/traffic.h"
#include "dist/unit.h"
#include "dist/world.h"

namespace cirrus::dist {

struct ParallelOptions {
  std::string strategy = "none";  ///< none, ddp, zero1, zero2, zero3, fsdp, hybrid
  bool recompute = false;         ///< activation checkpointing of every unit
  bool keep_frozen = false;       ///< frozen weights stay whole on each rank, where a strategy shards weights
  bool prefetch = true;           ///< the next unit's weights travel while this one computes
  bool reduce_each_part = true;   ///< accumulation: reduce every part (flat memory), else once a step (less traffic)
  at::ScalarType gather_type = at::ScalarType::Undefined;  ///< type in which sharded weights are gathered and used
  at::ScalarType reduce_type = at::ScalarType::Undefined;  ///< type in which gradients travel; their own by default
  std::int64_t persist = 100'000;                          ///< zero3 keeps trained tensors of fewer elements whole
};

/// How a strategy is called with what it keeps: "fsdp, frozen kept, recompute".
std::string strategy_name(const ParallelOptions& options);

/// Throws Error(config) for an unknown strategy or one the world cannot run.
void check_options(const ParallelOptions& options, const World& world);

/// A trained parameter as the optimizer's user knows it. `order`: its dimensions by falling stride; elements are
/// counted in that order (as they lie in memory).
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape, order;
  at::ScalarType type = at::kFloat;
  std::int64_t numel = 0;
};

/// Elements [begin, end) of a parameter, which lie in the optimizer's tensor number `tensor` from `offset` on.
struct Piece {
  std::size_t parameter = 0;
  std::int64_t begin = 0, end = 0;
  std::size_t tensor = 0;
  std::int64_t offset = 0;
};

class Parallel {
public:
  virtual ~Parallel() = default;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Runs units; hand it to the model.
  virtual UnitRunner& runner() = 0;
  /// What the optimizer updates: parameters, or flat shards of them. Moments and averages are tensors alike.
  const std::vector<at::Tensor>& weights() const { return weights_; }
  /// Which elements of which parameters those are. Pieces of all ranks cover every element at least once.
  virtual std::vector<Piece> pieces() const = 0;
  /// Whether this rank answers for its pieces in a checkpoint: together the ranks that do cover every element once.
  virtual bool owns(const Piece& piece) const = 0;

  /// Before the loss of a part of a step's batch is computed; `last`: of this step.
  virtual void begin_part(bool last) = 0;
  /// Gradients of the part's loss, added to those of the parts before; they travel as they come.
  virtual void backward(const at::Tensor& loss) = 0;
  /// After the last part: the sums over all ranks, one for each of weights(); zero where nothing flowed.
  virtual std::vector<at::Tensor> gradients() = 0;
  virtual void forget_gradients() = 0;
  /// Combines over the ranks what each knows of its own weights() alone, in place: nothing where all know all.
  virtual void combine(const at::Tensor& values, Reduce op) = 0;
  /// Sets each row (first dimension) of these parameters to rms 1, as kernels::force_unit_weights.
  virtual void force_unit_rows(const std::vector<std::string>& names) = 0;
  /// weights() have been updated.
  virtual void weights_changed() = 0;
  /// Waits for what still travels.
  virtual void finish() {}

  /// The whole of every parameter (of `tensors`, alike weights()), one at a time, on the host of the lead: all ranks
  /// call it; `take` is called on the lead.
  using Take = std::function<void(std::size_t parameter, const at::Tensor& whole)>;
  virtual void consolidate(const std::vector<at::Tensor>& tensors, const Take& take) = 0;

  /// Names of trained parameters that got no gradient in the last step on this rank.
  const std::vector<std::string>& unused() const { return unused_; }
  /// Of all groups together.
  virtual Traffic traffic() const = 0;
  virtual void reset_traffic() = 0;
  /// Most bytes of gathered weights, whole gradients and travelling shards that were there at a time.
  virtual std::int64_t peak_live_bytes() const { return 0; }

protected:
  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> weights_;
  std::vector<std::string> unused_;
};

/// Spreads a model over the world. All ranks give the same units; what they hold is made equal to the lead's. All ranks
/// call it. Throws Error(internal) if ranks have different models.
std::unique_ptr<Parallel> make_parallel(const std::vector<Unit>& units, const ParallelOptions& options,
                                        const World& world, device::Device& device);

/// The trained tensors of units, in order.
NamedTensors trained(const std::vector<Unit>& units);

/// A dense tensor's elements as they lie in memory, [numel].
at::Tensor in_memory_order(const at::Tensor& tensor);
Parameter describe(const std::string& name, const at::Tensor& tensor);
/// [numel] elements in a parameter's memory order as a tensor of its shape.
at::Tensor shaped(const at::Tensor& elements, const Parameter& parameter);

}  // namespace cirrus::dist
