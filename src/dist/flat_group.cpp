// Buffers, views and collectives of one flat group.
#include "dist/flat_group.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/errors.h"

namespace cirrus::dist {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

std::vector<std::int64_t> numels(const std::vector<at::Tensor>& tensors) {
  std::vector<std::int64_t> out;
  for (const at::Tensor& t : tensors) out.push_back(t.numel());
  return out;
}

std::int64_t bytes(const at::Tensor& t) { return static_cast<std::int64_t>(t.nbytes()); }

void take_memory(const at::Tensor& t) {
  c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, t.device()));
  storage->set_nbytes(0);
}

void give_memory(const at::Tensor& t) {
  c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
  const auto n = static_cast<std::size_t>(bytes(t));
  storage->set_data_ptr_noswap(storage->allocator()->allocate(n));
  storage->set_nbytes(n);
}

}  // namespace

FlatLayout::FlatLayout(const std::vector<std::int64_t>& numels, Split how, std::int64_t ranks) : split(how) {
  for (const std::int64_t n : numels) {
    Slot slot{n, whole, 0, shard};
    if (split == Split::flat) {
      whole += round_up(n, kAlign);
    } else {
      slot.slice = round_up((n + ranks - 1) / ranks, kAlign);
      whole += slot.slice * ranks;
      shard += slot.slice;
    }
    slots.push_back(slot);
  }
  if (split == Split::by_parameter) return;
  whole = round_up(whole, kAlign * ranks);
  shard = whole / ranks;
}

FlatGroup::FlatGroup(std::vector<at::Tensor> leaves, Split split, bool resident, bool by_reference,
                     const ParallelOptions& options, ProcessGroup& gathers, ProcessGroup& reductions, LiveBytes& live)
    : leaves_(std::move(leaves)),
      layout_(numels(leaves_), split, gathers.size()),
      resident_(resident),
      by_reference_(by_reference),
      trained_(leaves_[0].requires_grad()),
      gather_type_(options.gather_type == at::ScalarType::Undefined ? leaves_[0].scalar_type() : options.gather_type),
      reduce_type_(options.reduce_type == at::ScalarType::Undefined ? leaves_[0].scalar_type() : options.reduce_type),
      gathers_(gathers),
      reductions_(reductions),
      live_(live) {
  const c10::NoGradGuard no_grad;
  const at::TensorOptions options_of_shard = leaves_[0].options().requires_grad(false);
  at::Tensor whole = at::zeros({layout_.whole}, options_of_shard);
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const at::Tensor& leaf = leaves_[i];
    if (leaf.scalar_type() != leaves_[0].scalar_type())
      throw Error(ExitCode::internal, "The tensors of a unit have several types");
    sizes_.push_back(leaf.sizes().vec());
    strides_.push_back(leaf.strides().vec());
    slot(whole, i).copy_(in_memory_order(leaf));
  }
  gathers_.broadcast(whole, 0, "initial weights").wait();
  if (split == Split::flat) {
    shard_ = whole.narrow(0, gathers_.rank() * layout_.shard, layout_.shard).clone();
  } else {
    const at::Tensor parts = at::empty({gathers_.size(), layout_.shard}, options_of_shard);
    take_apart(whole, parts);
    shard_ = parts[gathers_.rank()].clone();
  }
  whole_ = at::empty({layout_.whole}, options_of_shard.dtype(gather_type_));
  whole_.copy_(whole);
  live_.add(bytes(whole_));
  there_ = true;
  point_leaves();
  // What needs no second copy shares the memory of the whole.
  if (resident_ && split == Split::flat && gather_type_ == shard_.scalar_type())
    shard_ = whole_.narrow(0, gathers_.rank() * layout_.shard, layout_.shard);
  free();
}

void FlatGroup::point_leaves() {
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    leaves_[i].set_data(whole_.as_strided(sizes_[i], strides_[i], layout_.slots[i].whole));
}

void FlatGroup::allocate() {
  if (by_reference_) {
    whole_ = at::empty({layout_.whole}, shard_.options().dtype(gather_type_));
    point_leaves();
  } else {
    give_memory(whole_);
  }
  live_.add(bytes(whole_));
}

void FlatGroup::begin_gather() {
  if ((there_ && !outdated_) || gathering_.is_pending()) return;
  const c10::NoGradGuard no_grad;
  if (!there_) allocate();
  there_ = true;
  outdated_ = false;
  if (layout_.split == Split::by_parameter) {
    parts_ = at::empty({gathers_.size(), layout_.shard}, whole_.options());
    live_.add(bytes(parts_));
  }
  // Through detached handles: the graph's version counters are not told, since the values are what they were.
  const at::Tensor out = layout_.split == Split::flat ? whole_.variable_data() : parts_.view(-1);
  gathering_ = gathers_.all_gather(out, shard_.to(gather_type_), "weights");
  if (!gathering_.is_pending()) finish_gather();
}

void FlatGroup::finish_gather() {
  begin_gather();
  gathering_.wait();
  if (!parts_.defined()) return;
  put_together(parts_, whole_.variable_data());
  live_.add(-bytes(parts_));
  parts_.reset();
}

void FlatGroup::free() {
  if (resident_ || !there_) return;
  finish_gather();
  live_.add(-bytes(whole_));
  there_ = false;
  if (by_reference_) {
    whole_ = at::empty({0}, whole_.options());
    for (at::Tensor& leaf : leaves_) leaf.set_data(whole_);
  } else {
    take_memory(whole_);
  }
}

void FlatGroup::outdate() {
  if (!there_) return;
  const bool all_here = gathers_.size() == 1 && shard_.data_ptr() == whole_.data_ptr();
  if (!all_here) outdated_ = true;
}

void FlatGroup::expect_gradients() {
  if (gradient_.defined() || !trained_) return;
  const c10::NoGradGuard no_grad;
  gradient_ = at::zeros({layout_.whole}, shard_.options().dtype(gather_type_));
  live_.add(bytes(gradient_));
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    leaves_[i].mutable_grad() = gradient_.as_strided(sizes_[i], strides_[i], layout_.slots[i].whole);
}

void FlatGroup::begin_reduce() {
  const c10::NoGradGuard no_grad;
  at::Tensor whole = gradient_.to(reduce_type_);
  if (layout_.split == Split::by_parameter) {
    travelling_ = at::empty({gathers_.size(), layout_.shard}, whole.options());
    take_apart(whole, travelling_);
    travelling_ = travelling_.view(-1);
  } else {
    travelling_ = whole;
  }
  for (const at::Tensor& leaf : leaves_) leaf.mutable_grad().reset();
  live_.add(-bytes(gradient_));
  gradient_.reset();
  whole.reset();
  arrived_ = at::empty({layout_.shard}, travelling_.options());
  live_.add(bytes(travelling_) + bytes(arrived_));
  reducing_ = reductions_.reduce_scatter(arrived_, travelling_, "gradients");
}

void FlatGroup::finish_reduce() {
  if (!arrived_.defined()) return;
  const c10::NoGradGuard no_grad;
  reducing_.wait();
  live_.add(-bytes(travelling_) - bytes(arrived_));
  travelling_.reset();
  if (!shard_gradient_.defined())
    shard_gradient_ = arrived_.to(shard_.scalar_type());
  else
    shard_gradient_.add_(arrived_);
  arrived_.reset();
}

void FlatGroup::forget_gradients() {
  finish_reduce();
  shard_gradient_.reset();
  if (gradient_.defined()) {
    for (const at::Tensor& leaf : leaves_) leaf.mutable_grad().reset();
    live_.add(-bytes(gradient_));
    gradient_.reset();
  }
}

void FlatGroup::put_together(const at::Tensor& parts, const at::Tensor& whole) const {
  const at::Tensor rows = parts.view({gathers_.size(), layout_.shard});
  for (const FlatLayout::Slot& s : layout_.slots)
    whole.narrow(0, s.whole, s.slice * gathers_.size())
        .view({gathers_.size(), s.slice})
        .copy_(rows.narrow(1, s.shard, s.slice));
}

void FlatGroup::take_apart(const at::Tensor& whole, const at::Tensor& parts) const {
  for (const FlatLayout::Slot& s : layout_.slots)
    parts.narrow(1, s.shard, s.slice)
        .copy_(whole.narrow(0, s.whole, s.slice * gathers_.size()).view({gathers_.size(), s.slice}));
}

at::Tensor FlatGroup::gather(const at::Tensor& like_shard) const {
  const c10::NoGradGuard no_grad;
  const at::Tensor parts = at::empty({layout_.whole}, like_shard.options());
  gathers_.all_gather(parts, like_shard, "whole tensors").wait();
  if (layout_.split == Split::flat) return parts;
  const at::Tensor whole = at::empty_like(parts);
  put_together(parts, whole);
  return whole;
}

at::Tensor FlatGroup::slot(const at::Tensor& whole, std::size_t i) const {
  return whole.narrow(0, layout_.slots[i].whole, layout_.slots[i].numel);
}

}  // namespace cirrus::dist
