// Data parallel over c10d::Reducer. Parameters that got no gradient are given one of zero by a second, tiny backward
// pass, so that the Reducer, which waits for all, never stalls, whichever parameters a rank leaves out.
#include "dist/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "base/errors.h"
#include "dist/gradient_hook.h"
#include "kernels/weight_norm.h"

namespace cirrus::dist {
namespace {

constexpr std::int64_t kFirstBucket = 1 << 20, kBucket = 25 << 20;  // bytes; those of PyTorch's data parallel

/// What the Reducer holds; it must never communicate by this itself (see process_group.h). Every bucket goes through
/// SumBuckets.
class SilentGroup : public c10d::ProcessGroup {
public:
  using c10d::ProcessGroup::ProcessGroup;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    refuse();
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>&, const c10d::BroadcastOptions&) override {
    refuse();
  }

private:
  [[noreturn]] static void refuse() {
    throw Error(ExitCode::internal, "The Reducer communicated behind the buckets' back");
  }
};

/// Sums a bucket over the ranks, in its own type or in a smaller one on the way.
class SumBuckets : public c10d::CppCommHookInterface<ProcessGroup*> {
public:
  SumBuckets(ProcessGroup* group, at::ScalarType travels) : CppCommHookInterface(group), travels_(travels) {}
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    at::Tensor whole = bucket.getBuffer();
    if (travels_ == at::ScalarType::Undefined || travels_ == whole.scalar_type())
      return state_->all_reduce(whole, Reduce::sum, "gradients").work()->getFuture();
    const at::Tensor small = whole.to(travels_);
    return state_->all_reduce(small, Reduce::sum, "gradients")
        .work()
        ->getFuture()
        ->then(
            [whole, small](c10::ivalue::Future&) {
              whole.copy_(small);
              return c10::IValue(std::vector<at::Tensor>{whole});
            },
            c10::ListType::create(c10::TensorType::get()));
  }

private:
  at::ScalarType travels_;
};

/// The Reducer's constructor: LibTorch 2.6 takes the limit of every bucket, newer ones do not.
template <class R = c10d::Reducer>
std::unique_ptr<R> make_reducer(const std::vector<at::Tensor>& leaves,
                                const std::vector<std::vector<std::size_t>>& buckets,
                                const std::vector<std::size_t>& limits,
                                const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                const std::unordered_map<std::size_t, std::string>& names) {
  using Indices = std::vector<std::vector<std::size_t>>;
  const std::vector<bool> dense(leaves.size(), false);
  if constexpr (std::is_constructible_v<R, std::vector<at::Tensor>, Indices, std::vector<std::size_t>,
                                        c10::intrusive_ptr<c10d::ProcessGroup>, std::vector<bool>, std::int64_t, bool,
                                        bool, std::unordered_map<std::size_t, std::string>, std::int64_t>) {
    return std::make_unique<R>(leaves, buckets, limits, group, dense, kBucket, false, true, names, kFirstBucket);
  } else if constexpr (std::is_constructible_v<R, std::vector<at::Tensor>, Indices,
                                               c10::intrusive_ptr<c10d::ProcessGroup>, std::vector<bool>, std::int64_t,
                                               bool, bool, std::unordered_map<std::size_t, std::string>, std::int64_t,
                                               bool, bool, std::vector<std::int64_t>>) {
    return std::make_unique<R>(leaves, buckets, group, dense, kBucket, false, true, names, kFirstBucket, false, false,
                               std::vector<std::int64_t>{});
  } else {
    return std::make_unique<R>(leaves, buckets, group, dense, kBucket, false, true, names, kFirstBucket, false, false);
  }
}

}  // namespace

class DataParallel::Plain : public UnitRunner {
public:
  explicit Plain(bool recompute) : recompute_(recompute) {}
  Tensors run(std::size_t, const Tensors& inputs, const Work& work) override {
    return recompute_ ? run_recomputed(inputs, work) : work(inputs);
  }

private:
  bool recompute_;
};

struct DataParallel::Engine {
  c10::intrusive_ptr<SilentGroup> silent;
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;

  Engine(const std::vector<at::Tensor>& leaves, const std::vector<Parameter>& parameters, ProcessGroup& group,
         const World& world, const at::Device& device, at::ScalarType travels) {
    silent = c10::make_intrusive<SilentGroup>(c10::make_intrusive<c10d::HashStore>(), world.rank, world.size);
    silent->setBackend(device.type(), c10d::ProcessGroup::BackendType::CUSTOM, group.backend());
    silent->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
        leaves, {static_cast<std::size_t>(kFirstBucket), static_cast<std::size_t>(kBucket)});
    std::reverse(buckets.begin(), buckets.end());
    std::reverse(limits.begin(), limits.end());
    std::unordered_map<std::size_t, std::string> names;
    for (std::size_t i = 0; i < parameters.size(); ++i) names[i] = parameters[i].name;
    reducer = make_reducer(leaves, buckets, limits, silent, names);
    logger = std::make_shared<c10d::Logger>(reducer);
    reducer->set_logger(logger);
    logger->set_construction_data_and_log("cirrus", {}, -1, false, false, false);
    reducer->register_comm_hook(std::make_unique<SumBuckets>(&group, travels));
  }
  ~Engine() {
    reducer->remove_autograd_hooks();
    logger.reset();
    reducer.reset();
  }
};

DataParallel::DataParallel(const std::vector<Unit>& units, const ParallelOptions& options, const World& world,
                           device::Device& device)
    : options_(options), runner_(std::make_unique<Plain>(options.recompute)) {
  for (const auto& [name, leaf] : trained(units)) {
    parameters_.push_back(describe(name, leaf));
    leaves_.push_back(leaf);
    weights_.push_back(leaf.detach());
  }
  fired_.assign(leaves_.size(), 0);
  used_.assign(leaves_.size(), 0);
  group_ = make_group(world, device, all_ranks(world, "data parallel"));
  for (std::size_t i = 0; i < leaves_.size(); ++i) on_gradient(leaves_[i], [this, i] { fired_[i] = used_[i] = 1; });
  if (world.size == 1) return;
  for (const at::Tensor& w : weights_) group_->broadcast(in_memory_order(w), 0, "initial weights").wait();
  engine_ = std::make_unique<Engine>(leaves_, parameters_, *group_, world, device.torch_device(), options.reduce_type);
}

DataParallel::~DataParallel() {
  engine_.reset();
  for (const at::Tensor& leaf : leaves_) on_gradient(leaf, nullptr);
}

UnitRunner& DataParallel::runner() { return *runner_; }

std::vector<Piece> DataParallel::pieces() const {
  std::vector<Piece> out;
  for (std::size_t i = 0; i < parameters_.size(); ++i) out.push_back({i, 0, parameters_[i].numel, i, 0});
  return out;
}

/// Ranks share the writing of what all of them have.
bool DataParallel::owns(const Piece& piece) const {
  return static_cast<int>(piece.parameter % static_cast<std::size_t>(group_->size())) == group_->rank();
}

void DataParallel::begin_part(bool last) {
  last_ = last;  // parts before it add up on this rank alone: their gradients are whole anyway
  std::fill(fired_.begin(), fired_.end(), 0);
  if (engine_ && last) {
    engine_->reducer->prepare_for_forward();
    engine_->reducer->prepare_for_backward({});
  }
}

void DataParallel::backward(const at::Tensor& loss) {
  torch::autograd::backward({loss}, {});
  if (!engine_ || !last_) return;
  std::vector<at::Tensor> missing;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (fired_[i] == 0) missing.push_back(leaves_[i]);
  if (missing.empty()) return;
  const std::vector<char> used = used_;
  at::Tensor nothing;
  {
    const at::AutoGradMode with_graph(true);
    for (const at::Tensor& leaf : missing) {
      const at::Tensor none = (leaf * 0).sum();
      nothing = nothing.defined() ? nothing + none.to(nothing.dtype()) : none;
    }
  }
  torch::autograd::backward({nothing}, {});
  used_ = used;
}

std::vector<at::Tensor> DataParallel::gradients() {
  unused_.clear();
  std::vector<at::Tensor> out;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (used_[i] == 0) unused_.push_back(parameters_[i].name);
    out.push_back(leaves_[i].grad().defined() ? leaves_[i].grad() : at::zeros_like(weights_[i]));
  }
  std::fill(used_.begin(), used_.end(), 0);
  return out;
}

void DataParallel::forget_gradients() {
  for (const at::Tensor& leaf : leaves_) leaf.mutable_grad().reset();
}

void DataParallel::force_unit_rows(const std::vector<std::string>& names) {
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (std::find(names.begin(), names.end(), parameters_[i].name) != names.end()) rows.push_back(weights_[i]);
  kernels::force_unit_weights(rows);
}

void DataParallel::consolidate(const std::vector<at::Tensor>& tensors, const Take& take) {
  if (group_->rank() != 0) return;
  for (std::size_t i = 0; i < tensors.size(); ++i) take(i, tensors[i].cpu());
}

}  // namespace cirrus::dist
