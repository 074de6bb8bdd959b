// One training step as a sequence of what is allocated and freed.
#include "train/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "dist/flat_group.h"

namespace cirrus::train {
namespace {

using dist::Activations;
using dist::FlatLayout;
using dist::ParallelOptions;

double width(at::ScalarType type) { return static_cast<double>(c10::elementSize(type)); }

double total(const std::vector<std::int64_t>& numels) {
  return static_cast<double>(std::accumulate(numels.begin(), numels.end(), std::int64_t{0}));
}

bool is_whole(const std::string& strategy) { return strategy == "none" || strategy == "ddp"; }
bool shards_weights(const std::string& strategy) {
  return !is_whole(strategy) && strategy != "zero1" && strategy != "zero2";
}
int ranks_of_group(const std::string& strategy, const Ranks& r) { return strategy == "hybrid" ? r.per_host : r.size; }

/// A flat group of dist/flat_group.h, in elements.
struct Group {
  double whole = 0, shard = 0;
  bool trained = false, resident = false, by_parameter = false;
};

/// The groups that dist::Sharded makes of a unit.
std::vector<Group> groups_of(const UnitSize& unit, const ParallelOptions& o, int ranks) {
  std::vector<Group> out;
  const auto add = [&](const std::vector<std::int64_t>& numels, bool trained, bool small) {
    if (numels.empty()) return;
    const bool cut = o.strategy == "zero3" && !small;
    const FlatLayout layout(numels, cut ? dist::Split::by_parameter : dist::Split::flat, ranks);
    out.push_back({static_cast<double>(layout.whole), static_cast<double>(layout.shard), trained,
                   small || !shards_weights(o.strategy), cut});
  };
  std::vector<std::int64_t> small, large;
  for (const std::int64_t n : unit.trained) (o.strategy == "zero3" && n < o.persist ? small : large).push_back(n);
  add(large, true, false);
  add(small, true, true);
  if (shards_weights(o.strategy) && !o.keep_frozen) add(unit.frozen, false, false);
  return out;
}

class Step {
public:
  Step(const TrainingSize& size, const ParallelOptions& options, const Ranks& ranks)
      : size_(size),
        options_(options),
        whole_(is_whole(options.strategy)),
        ranks_(ranks_of_group(options.strategy, ranks)),
        kept_(width(size.weights)),
        used_(width(!whole_ && options.gather_type != at::ScalarType::Undefined ? options.gather_type : size.used)),
        frozen_(width(size.frozen)),
        travel_(options.reduce_type == at::ScalarType::Undefined ? (whole_ ? used_ : kept_)
                                                                 : width(options.reduce_type)) {
    for (const UnitSize& unit : size.units) {
      groups_.push_back(whole_ ? std::vector<Group>{} : groups_of(unit, options, ranks_));
      std::int64_t most = 0;
      for (const std::int64_t n : unit.trained) most = std::max(most, n);
      largest_.push_back(static_cast<double>(most) * used_);
    }
    there_.assign(groups_.size(), false);
    flight_.assign(groups_.size(), 0);
    has_gradients_.assign(groups_.size(), false);
    has_shard_gradients_.assign(groups_.size(), false);
  }

  MemoryPlan worst() {
    hold_what_stays();
    note(0);
    if (size_.accumulation > 1) part(false);
    part(true);
    return worst_;
  }

private:
  std::size_t count() const { return groups_.size(); }
  Activations activations(std::size_t u) const {
    return u < size_.activations.units.size() ? size_.activations.units[u] : Activations{};
  }
  void note(double working) {
    now_.working = working;
    if (now_.total() > worst_.total()) worst_ = now_;
    now_.working = 0;
  }

  void hold_what_stays() {
    now_.inputs = size_.inputs;
    double state = 0;  // elements that the optimizer updates here
    for (std::size_t u = 0; u < count(); ++u) {
      const double trained = total(size_.units[u].trained), frozen = total(size_.units[u].frozen) * frozen_;
      if (whole_) {
        now_.weights += trained * used_ + frozen;
        if (used_ != kept_) now_.copies += trained * kept_;
        if (ranks_ > 1) now_.gradients += trained * used_;  // the Reducer's buckets
        state += trained;
        continue;
      }
      if (options_.keep_frozen || !shards_weights(options_.strategy)) now_.weights += frozen;
      for (const Group& g : groups_[u]) {
        if (!g.trained) {
          now_.weights += g.shard * frozen_;
          continue;
        }
        state += g.shard;
        if (g.resident) now_.weights += g.whole * used_;
        const bool shares = g.resident && !g.by_parameter && used_ == kept_;
        if (!shares) (g.resident ? now_.copies : now_.weights) += g.shard * kept_;
      }
    }
    if (size_.moments) now_.moments = 2 * state * kept_;
    if (size_.average) now_.average = state * kept_;
    const double owned = whole_ ? state / ranks_ : state;
    now_.checkpoint_copy = owned * kept_ * (1 + (size_.moments ? 2 : 0) + (size_.average ? 1 : 0));
  }

  double bytes(const Group& g, double elements) const { return elements * (g.trained ? used_ : frozen_); }

  void begin_gather(std::size_t u) {
    if (u >= count() || there_[u]) return;
    there_[u] = true;
    for (const Group& g : groups_[u]) {
      if (g.resident) continue;
      now_.gathered += bytes(g, g.whole);
      if (g.by_parameter) flight_[u] += bytes(g, g.whole);
      if (g.trained && used_ != kept_) flight_[u] += g.shard * used_;
    }
    now_.gathered += flight_[u];
    note(0);
  }
  void gather(std::size_t u) {
    begin_gather(u);
    now_.gathered -= flight_[u];
    flight_[u] = 0;
  }
  void prefetch(std::size_t u) {
    if (options_.prefetch) begin_gather(u);
  }
  void release(std::size_t u) {
    if (!there_[u]) return;
    gather(u);
    there_[u] = false;
    for (const Group& g : groups_[u])
      if (!g.resident) now_.gathered -= bytes(g, g.whole);
  }

  void expect_gradients(std::size_t u) {
    if (has_gradients_[u]) return;
    has_gradients_[u] = true;
    for (const Group& g : groups_[u])
      if (g.trained) now_.gradients += g.whole * used_;
  }
  void begin_reduce(std::size_t u) {
    finish_reduce();
    expect_gradients(u);
    has_gradients_[u] = false;
    for (const Group& g : groups_[u]) {
      if (!g.trained) continue;
      const double travelling = g.whole * travel_;
      now_.travelling += travelling;
      if (g.by_parameter && travel_ != used_) note(travelling);
      if (g.by_parameter || travel_ != used_) note(0);  // beside the gradients they are made of
      now_.gradients -= g.whole * used_;
      now_.travelling += g.shard * travel_;
      note(0);
    }
    reducing_ = u;
    is_reducing_ = true;
  }
  void finish_reduce() {
    if (!is_reducing_) return;
    is_reducing_ = false;
    for (const Group& g : groups_[reducing_]) {
      if (!g.trained) continue;
      now_.travelling -= g.whole * travel_ + g.shard * travel_;
      if (!has_shard_gradients_[reducing_]) now_.gradients += g.shard * kept_;
    }
    has_shard_gradients_[reducing_] = true;
    note(0);
  }

  void forward(std::size_t u) {
    gather(u);
    prefetch(u + 1);
    const Activations a = activations(u);
    if (options_.recompute) {
      note(a.kept + a.output + a.working);
    } else {
      now_.activations += a.kept;
      note(a.output);
      now_.activations -= a.consumed;
    }
    now_.activations += a.output;
    if (u + 1 < count()) release(u);
  }

  /// Gradients of a unit that is whole, once they have come.
  void add_whole_gradients(std::size_t u, bool last) {
    // They replace none, are added to those of the parts before, or go to the buckets that are there.
    if (!whole_ || has_gradients_[u]) return;
    if (ranks_ == 1 || !last) {
      has_gradients_[u] = true;
      now_.gradients += total(size_.units[u].trained) * used_;
    }
  }

  void backward(std::size_t u, bool last, bool reduces) {
    if (u + 1 < count()) release(u + 1);
    gather(u);
    if (u > 1) prefetch(u - 1);
    if (reduces && u + 1 < count()) begin_reduce(u + 1);
    if (!whole_) expect_gradients(u);
    const Activations a = activations(u);
    // A gradient that is added to another is there by itself first.
    const bool adds = !whole_ || ranks_ > 1 || has_gradients_[u];
    if (options_.recompute) now_.activations += a.kept;
    note(std::max(a.working, adds ? largest_[u] : 0));
    now_.activations -= a.kept - (options_.recompute ? 0 : a.consumed);
    add_whole_gradients(u, last);
    note(adds ? largest_[u] : 0);
    now_.activations -= a.output;
  }

  void part(bool last) {
    const bool reduces = !whole_ && (options_.strategy == "zero1" ? last : options_.reduce_each_part || last);
    const Activations root = activations(0), head = size_.activations.head;
    gather(0);
    prefetch(1);
    now_.activations += root.kept + root.output;
    note(root.working);
    for (std::size_t u = 1; u < count(); ++u) forward(u);
    now_.head += head.kept;
    if (!whole_) expect_gradients(0);
    note(head.working);
    now_.head -= head.kept;
    if (count() > 1) add_whole_gradients(0, last);
    for (std::size_t u = count(); u-- > 1;) backward(u, last, reduces);
    if (count() > 1) {
      release(1);
      if (reduces) begin_reduce(1);
    }
    note(std::max(root.working, largest_[0]));
    now_.activations -= root.kept + root.output;
    if (whole_ && travel_ != used_ && last && ranks_ > 1)  // buckets in the smaller type
      for (const UnitSize& unit : size_.units) now_.travelling += total(unit.trained) * travel_;
    add_whole_gradients(0, last);
    note(0);
    now_.travelling = is_reducing_ ? now_.travelling : 0;
    if (last && whole_ && ranks_ > 1) {  // what parts before added up lies in the buckets now
      for (std::size_t u = 0; u < count(); ++u)
        if (has_gradients_[u]) now_.gradients -= total(size_.units[u].trained) * used_;
    }
    for (std::size_t u = 0; u < count() && !whole_; ++u) release(u);
    if (reduces) {
      begin_reduce(0);
      finish_reduce();
    }
    note(0);
  }

  const TrainingSize& size_;
  const ParallelOptions& options_;
  const bool whole_;
  const int ranks_;
  const double kept_, used_, frozen_, travel_;  // bytes of an element
  std::vector<std::vector<Group>> groups_;
  std::vector<double> largest_;  ///< bytes of each unit's largest gradient
  std::vector<bool> there_, has_gradients_, has_shard_gradients_;
  std::vector<double> flight_;  ///< bytes beside a unit's weights while they are gathered
  std::size_t reducing_ = 0;
  bool is_reducing_ = false;
  MemoryPlan now_, worst_;
};

}  // namespace

std::int64_t TrainingSize::trained_elements() const {
  std::int64_t n = 0;
  for (const UnitSize& u : units) n += std::accumulate(u.trained.begin(), u.trained.end(), std::int64_t{0});
  return n;
}

std::int64_t TrainingSize::frozen_elements() const {
  std::int64_t n = 0;
  for (const UnitSize& u : units) n += std::accumulate(u.frozen.begin(), u.frozen.end(), std::int64_t{0});
  return n;
}

TrainingSize size_of(const std::vector<dist::Unit>& units, const TrainerOptions& options,
                     dist::ModelActivations activations) {
  TrainingSize size;
  bool first = true;
  for (const dist::Unit& unit : units) {
    UnitSize& u = size.units.emplace_back();
    u.name = unit.name;
    for (const auto& [name, t] : unit.tensors) {
      (t.requires_grad() ? u.trained : u.frozen).push_back(t.numel());
      if (!t.requires_grad()) {
        size.frozen = t.scalar_type();
      } else if (std::exchange(first, false)) {
        size.weights = size.used = t.scalar_type();
      }
    }
  }
  size.activations = std::move(activations);
  size.average = options.optimizer.average;
  size.accumulation = options.accumulation;
  return size;
}

MemoryPlan plan_memory(const TrainingSize& size, const ParallelOptions& options, const Ranks& ranks) {
  return Step(size, options, ranks).worst();
}

TrafficPlan plan_traffic(const TrainingSize& size, const ParallelOptions& o, const Ranks& ranks) {
  TrafficPlan t;
  const int n = ranks_of_group(o.strategy, ranks);
  const double share = static_cast<double>(n - 1) / n, parts = static_cast<double>(size.accumulation);
  const double kept = width(size.weights);
  if (is_whole(o.strategy)) {
    const double travel = width(o.reduce_type == at::ScalarType::Undefined ? size.used : o.reduce_type);
    if (n > 1) t.all_reduce.bytes = static_cast<double>(size.trained_elements()) * travel;
    t.all_reduce.sent = 2 * share * t.all_reduce.bytes;
    return t;
  }
  const double used = width(o.gather_type == at::ScalarType::Undefined ? size.used : o.gather_type);
  const double travel = o.reduce_type == at::ScalarType::Undefined ? kept : width(o.reduce_type);
  const bool each = o.strategy != "zero1" && o.reduce_each_part;
  double shards = 0;
  for (std::size_t u = 0; u < size.units.size(); ++u) {
    // The root stays during a part; the last unit begins the backward pass.
    const double times = u == 0 || u + 1 == size.units.size() ? 1 : 2;
    for (const Group& g : groups_of(size.units[u], o, n)) {
      const double whole = g.whole * (g.trained ? used : width(size.frozen));
      t.all_gather.bytes += g.resident ? whole : times * parts * whole;
      if (u <= 1 && !g.resident) t.first += parts * share * whole;
      if (!g.trained) continue;
      t.reduce_scatter.bytes += g.whole * travel * (each ? parts : 1);
      shards += g.shard * kept;
    }
  }
  if (n == 1) t.all_gather.bytes = t.reduce_scatter.bytes = t.first = 0;
  t.all_gather.sent = share * t.all_gather.bytes;
  t.reduce_scatter.sent = share * t.reduce_scatter.bytes;
  const int hosts = ranks.size / n;
  if (hosts > 1) t.across = {shards, 2.0 * (hosts - 1) / hosts * shards};
  return t;
}

std::vector<ParallelOptions> candidates(const TrainingSize& size, const ParallelOptions& wanted, const Ranks& ranks) {
  std::vector<ParallelOptions> out;
  const auto add = [&](const char* strategy, bool keep_frozen) {
    ParallelOptions o = wanted;
    o.strategy = strategy;
    o.keep_frozen = keep_frozen;
    out.push_back(o);
  };
  if (ranks.size == 1) {
    add("none", false);
    return out;
  }
  for (const char* strategy : {"ddp", "zero1", "zero2"}) add(strategy, false);
  const bool hosts = ranks.per_host > 1 && ranks.per_host < ranks.size;
  for (const bool keep_frozen : {true, false}) {
    if (keep_frozen && size.frozen_elements() == 0) continue;
    if (hosts) add("hybrid", keep_frozen);
    add("fsdp", keep_frozen);
    add("zero3", keep_frozen);
  }
  return out;
}

Advice advise(const TrainingSize& size, const ParallelOptions& wanted, const Ranks& ranks, double available) {
  std::vector<ParallelOptions> all = candidates(size, wanted, ranks);
  if (!wanted.recompute && size.units.size() > 1 && !size.activations.units.empty()) {
    const std::size_t n = all.size();
    for (std::size_t i = 0; i < n; ++i) {
      all.push_back(all[i]);
      all.back().recompute = true;
    }
  }
  Advice least;
  for (const ParallelOptions& o : all) {
    Advice a{o, plan_memory(size, o, ranks), available, false};
    a.fits = a.plan.total() <= available;
    if (a.fits) return a;
    if (least.plan.total() == 0 || a.plan.total() < least.plan.total()) least = a;
  }
  return least;
}

}  // namespace cirrus::train
