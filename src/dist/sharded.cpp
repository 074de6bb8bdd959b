// When weights are gathered and freed, and gradients reduced.
#include "dist/sharded.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/errors.h"
#include "dist/gradient_hook.h"

namespace cirrus::dist {
namespace {

bool shards_weights(const std::string& strategy) { return strategy != "zero1" && strategy != "zero2"; }

}  // namespace

Sharded::Sharded(const std::vector<Unit>& units, const ParallelOptions& options, const World& world,
                 device::Device& device)
    : options_(options), by_reference_(device.capabilities().deferred_execution) {
  const bool hybrid = options.strategy == "hybrid";
  const auto members = [&](const char* name) { return hybrid ? ranks_of_node(world, name) : all_ranks(world, name); };
  gathers_ = make_group(world, device, members("weights"));
  // On the CPU both kinds travel at a time, each by a thread of its own; on cards they share a queue in one order,
  // since two communicators at work at once may wait for each other there.
  reductions_ = device.torch_device().is_cpu() ? make_group(world, device, members("gradients")) : gathers_;
  across_ = hybrid && world.nodes > 1 ? make_group(world, device, ranks_across_nodes(world, "across hosts"))
                                      : std::make_shared<ProcessGroup>();
  for (const Unit& unit : units) {
    Block& block = blocks_.emplace_back();
    using Numbered = std::vector<std::pair<std::size_t, at::Tensor>>;
    std::map<std::tuple<bool, bool, at::ScalarType>, Numbered> kinds;  // frozen, small, type
    for (const auto& [name, tensor] : unit.tensors) {
      const bool trained = tensor.requires_grad();
      if (!trained && (options.keep_frozen || !shards_weights(options.strategy))) continue;
      const bool small = trained && options.strategy == "zero3" && tensor.numel() < options.persist;
      kinds[{!trained, small, tensor.scalar_type()}].emplace_back(parameters_.size(), tensor);
      if (!trained) continue;
      block.numbers.push_back(parameters_.size());
      block.leaves.push_back(tensor);
      parameters_.push_back(describe(name, tensor));
    }
    for (const auto& [kind, tensors] : kinds) add_member(block, tensors, std::get<1>(kind));
  }
  if (across_->size() > 1)  // hosts begin alike
    for (const at::Tensor& w : weights_) across_->broadcast(w, 0, "initial weights").wait();
  used_.assign(parameters_.size(), 0);
  for (const Block& block : blocks_)
    for (std::size_t i = 0; i < block.leaves.size(); ++i)
      on_gradient(block.leaves[i], [this, parameter = block.numbers[i]] { used_[parameter] = 1; });
  weights_changed();
}

Sharded::~Sharded() {
  for (const Block& block : blocks_)
    for (const at::Tensor& leaf : block.leaves) on_gradient(leaf, nullptr);
}

void Sharded::add_member(Block& block, const std::vector<std::pair<std::size_t, at::Tensor>>& tensors, bool small) {
  Member member;
  std::vector<at::Tensor> leaves;
  for (const auto& [number, tensor] : tensors) {
    leaves.push_back(tensor);
    if (tensor.requires_grad()) member.parameters.push_back(number);
  }
  const bool trained = !member.parameters.empty();
  const Split split = options_.strategy == "zero3" && !small ? Split::by_parameter : Split::flat;
  member.group = std::make_unique<FlatGroup>(std::move(leaves), split, small || !shards_weights(options_.strategy),
                                             by_reference_, options_, *gathers_, *reductions_, live_);
  if (trained) {
    weights_.push_back(member.group->shard());
    place_of_weight_.emplace_back(blocks_.size() - 1, block.members.size());
  }
  block.members.push_back(std::move(member));
}

void Sharded::gather(std::size_t index) {
  for (const Member& m : blocks_[index].members) m.group->begin_gather();
  for (const Member& m : blocks_[index].members) m.group->finish_gather();
}

void Sharded::prefetch(std::size_t index) {
  if (!options_.prefetch || index >= blocks_.size()) return;
  for (const Member& m : blocks_[index].members) m.group->begin_gather();
}

void Sharded::release(std::size_t index) {
  for (const Member& m : blocks_[index].members) m.group->free();
}

/// Units that were left out are gathered all the same: another rank may need them.
void Sharded::catch_up_forward(std::size_t index) {
  for (; next_forward_ < index; ++next_forward_) {
    gather(next_forward_);
    prefetch(next_forward_ + 1);
    if (next_forward_ + 1 < blocks_.size()) release(next_forward_);
  }
}

void Sharded::begin_part(bool last) {
  reduces_ = options_.strategy == "zero1" ? last : options_.reduce_each_part || last;
  gather(0);
  next_forward_ = 1;
  next_backward_ = next_reduce_ = blocks_.size();
  prefetch(1);
}

UnitRunner::Tensors Sharded::run(std::size_t index, const Tensors& inputs, const Work& work) {
  if (index == 0 || index >= blocks_.size() || index < next_forward_)
    throw Error(ExitCode::internal, "Unit " + std::to_string(index) + " runs out of order");
  catch_up_forward(index);
  gather(index);
  next_forward_ = index + 1;
  prefetch(index + 1);
  Tensors out = options_.recompute ? run_recomputed(inputs, work) : work(inputs);
  for (const at::Tensor& t : out) {
    if (!t.requires_grad()) continue;
    t.register_hook([this, index](const at::Tensor& gradient) {
      before_backward_of(index);
      return gradient;
    });
  }
  // The last unit is the first of the backward pass.
  if (index + 1 < blocks_.size() || !at::GradMode::is_enabled()) release(index);
  return out;
}

/// The graph's nodes run in the order opposite to that of the forward pass: whatever later units needed has been used,
/// and their gradients have come.
void Sharded::before_backward_of(std::size_t index) {
  while (next_backward_ > index) {
    const std::size_t now = --next_backward_;
    if (now + 1 < blocks_.size()) release(now + 1);
    gather(now);
    if (now > 1) prefetch(now - 1);
    while (reduces_ && next_reduce_ > now + 1) begin_reduce(--next_reduce_);
  }
  for (const Member& m : blocks_[index].members) m.group->expect_gradients();
}

/// One unit's gradients travel at a time, while the next unit's are computed.
void Sharded::begin_reduce(std::size_t index) {
  finish_reduce();
  for (const Member& m : blocks_[index].members) {
    if (!m.group->trained()) continue;
    m.group->expect_gradients();  // of a unit that got none
    m.group->begin_reduce();
  }
  reducing_ = index;
}

void Sharded::finish_reduce() {
  for (const Member& m : blocks_[reducing_].members) m.group->finish_reduce();
}

void Sharded::backward(const at::Tensor& loss) {
  catch_up_forward(blocks_.size());
  for (const Member& m : blocks_[0].members) m.group->expect_gradients();
  torch::autograd::backward({loss}, {});
  if (blocks_.size() > 1) before_backward_of(1);  // units that were left out, for other ranks' sake
  for (std::size_t b = 0; b < blocks_.size(); ++b) release(b);
  if (!reduces_) return;
  while (next_reduce_ > 0) begin_reduce(--next_reduce_);
  finish_reduce();
}

std::vector<at::Tensor> Sharded::gradients() {
  unused_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (used_[i] == 0) unused_.push_back(parameters_[i].name);
  std::fill(used_.begin(), used_.end(), 0);
  std::vector<at::Tensor> out;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const auto [b, m] = place_of_weight_[i];
    at::Tensor& gradient = blocks_[b].members[m].group->shard_gradient();
    if (across_->size() > 1) across_->all_reduce(gradient, Reduce::sum, "gradients across hosts").wait();
    out.push_back(gradient);
  }
  return out;
}

void Sharded::forget_gradients() {
  for (const Block& block : blocks_)
    for (const Member& m : block.members) m.group->forget_gradients();
}

void Sharded::combine(const at::Tensor& values, Reduce op) { gathers_->all_reduce(values, op, "norms").wait(); }

void Sharded::weights_changed() {
  for (const Block& block : blocks_)
    for (const Member& m : block.members) {
      m.group->outdate();
      if (m.group->resident()) m.group->begin_gather();
    }
}

void Sharded::finish() {
  for (const Block& block : blocks_)
    for (const Member& m : block.members)
      if (m.group->resident()) m.group->finish_gather();
}

std::vector<Piece> Sharded::pieces() const {
  std::vector<Piece> out;
  const std::int64_t rank = gathers_->rank();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const auto [b, m] = place_of_weight_[i];
    const Member& member = blocks_[b].members[m];
    const FlatLayout& layout = member.group->layout();
    for (std::size_t k = 0; k < member.parameters.size(); ++k) {
      const FlatLayout::Slot& s = layout.slots[k];
      // The rank's part of the tensor begins at `from` and lies at `at` in the shard.
      const bool flat = layout.split == Split::flat;
      const std::int64_t from = flat ? std::max<std::int64_t>(rank * layout.shard - s.whole, 0) : rank * s.slice;
      const std::int64_t end = std::min(s.numel, flat ? (rank + 1) * layout.shard - s.whole : (rank + 1) * s.slice);
      const std::int64_t at = flat ? s.whole + from - rank * layout.shard : s.shard;
      if (from < end) out.push_back({member.parameters[k], from, end, i, at});
    }
  }
  return out;
}

bool Sharded::owns(const Piece&) const { return across_->rank() == 0; }

void Sharded::force_unit_rows(const std::vector<std::string>& names) {
  const c10::NoGradGuard no_grad;
  std::vector<std::int64_t> first_row(parameters_.size(), -1);
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (std::find(names.begin(), names.end(), parameters_[i].name) == names.end()) continue;
    if (parameters_[i].order[0] != 0) throw Error(ExitCode::internal, parameters_[i].name + " is not stored by rows");
    first_row[i] = rows;
    rows += parameters_[i].shape[0];
  }
  if (rows == 0) return;
  // A piece is whole rows with a part of one before and one after.
  struct Part {
    at::Tensor elements;  ///< [rows, row length], or a part of one row
    std::int64_t row, count;
  };
  std::vector<Part> parts;
  for (const Piece& p : pieces()) {
    if (first_row[p.parameter] < 0) continue;
    const std::int64_t length = parameters_[p.parameter].numel / parameters_[p.parameter].shape[0];
    for (std::int64_t at = p.begin; at < p.end;) {
      const bool starts = at % length == 0;
      const std::int64_t whole = starts ? (p.end - at) / length : 0;
      const std::int64_t n = whole > 0 ? whole * length : std::min(p.end - at, length - at % length);
      parts.push_back(
          {weights_[p.tensor].narrow(0, p.offset + at - p.begin, n).view({std::max<std::int64_t>(whole, 1), -1}),
           first_row[p.parameter] + at / length, std::max<std::int64_t>(whole, 1)});
      at += n;
    }
  }
  const at::Tensor sums = at::zeros({rows}, weights_[0].options()), lengths = at::empty({rows}, weights_[0].options());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (first_row[i] >= 0)
      lengths.narrow(0, first_row[i], parameters_[i].shape[0])
          .fill_(static_cast<double>(parameters_[i].numel / parameters_[i].shape[0]));
  for (const Part& part : parts) sums.narrow(0, part.row, part.count).add_(part.elements.square().sum(1));
  combine(sums, Reduce::sum);
  const at::Tensor rms = (sums / lengths).add_(1e-12).sqrt_();  // as kernels::force_unit_weights
  for (const Part& part : parts) part.elements.div_(rms.narrow(0, part.row, part.count).unsqueeze(1));
}

void Sharded::consolidate(const std::vector<at::Tensor>& tensors, const Take& take) {
  if (across_->rank() != 0) return;
  std::map<std::size_t, at::Tensor> of_block;  // in the order of parameters
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [b, m] = place_of_weight_[i];
    const Member& member = blocks_[b].members[m];
    const at::Tensor whole = member.group->gather(tensors[i]);
    for (std::size_t k = 0; gathers_->rank() == 0 && k < member.parameters.size(); ++k)
      of_block[member.parameters[k]] = member.group->slot(whole, k).cpu();
    if (i + 1 < tensors.size() && place_of_weight_[i + 1].first == b) continue;
    for (const auto& [parameter, elements] : of_block) take(parameter, shaped(elements, parameters_[parameter]));
    of_block.clear();
  }
}

void Sharded::reset_traffic() {
  for (const auto& group : {gathers_, reductions_, across_}) group->reset_traffic();
}

Traffic Sharded::traffic() const {
  Traffic t = gathers_->traffic();
  for (const ProcessGroup* group : {reductions_.get(), across_.get()}) {
    if (group == gathers_.get()) continue;
    const Traffic& o = group->traffic();
    const auto add = [](Traffic::Kind& a, const Traffic::Kind& b) {
      a.calls += b.calls;
      a.bytes += b.bytes;
      a.sent += b.sent;
    };
    add(t.all_reduce, o.all_reduce);
    add(t.all_gather, o.all_gather);
    add(t.reduce_scatter, o.reduce_scatter);
    add(t.broadcast, o.broadcast);
  }
  return t;
}

}  // namespace cirrus::dist
