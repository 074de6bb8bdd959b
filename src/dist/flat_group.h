// Tensors of one unit in one flat buffer, of which each rank keeps a shard: gathered whole when the unit computes,
// freed after; gradients added up in a whole buffer and reduced into shards. The leaves of the graph are views of the
// whole buffer all the time; freeing takes its memory away and leaves them as they are.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "dist/parallel.h"
#include "dist/process_group.h"

namespace cirrus::dist {

/// Bytes of gathered weights, whole gradients and travelling shards, as they come and go.
struct LiveBytes {
  std::int64_t now = 0, peak = 0;
  void add(std::int64_t n) {
    now += n;
    if (now > peak) peak = now;
  }
};

enum class Split {
  flat,         ///< the concatenation of all tensors is cut evenly
  by_parameter  ///< every tensor is cut evenly, and gathered parts are put together again
};

/// Where tensors lie in the whole buffer and in a shard; elements. Each begins at a multiple of kAlign.
struct FlatLayout {
  static constexpr std::int64_t kAlign = 8;
  struct Slot {
    std::int64_t numel = 0, whole = 0;  ///< length, offset in the whole buffer
    std::int64_t slice = 0, shard = 0;  ///< by_parameter: length of a rank's slice, its offset in the shard
  };
  Split split = Split::flat;
  std::vector<Slot> slots;
  std::int64_t whole = 0, shard = 0;  ///< lengths: whole = shard times ranks

  FlatLayout(const std::vector<std::int64_t>& numels, Split split, std::int64_t ranks);
};

class FlatGroup {
public:
  /// Takes over the leaves: their data move into the buffers. `resident`: the whole buffer is never freed.
  /// `by_reference`: devices whose tensors have no storage to take away get new leaves' data at each gathering instead.
  FlatGroup(std::vector<at::Tensor> leaves, Split split, bool resident, bool by_reference,
            const ParallelOptions& options, ProcessGroup& gathers, ProcessGroup& reductions, LiveBytes& live);

  const FlatLayout& layout() const { return layout_; }
  const at::Tensor& shard() const { return shard_; }
  bool resident() const { return resident_; }
  bool trained() const { return trained_; }

  void begin_gather();   ///< does nothing if it is there or on its way
  void finish_gather();  ///< the weights are at hand afterwards
  void free();           ///< unless resident
  /// The shard has changed: a resident whole has to be gathered again.
  void outdate();

  void expect_gradients();  ///< gives the leaves gradients of zero to add to, unless they have some
  void begin_reduce();
  void finish_reduce();  ///< adds what came to the shard's gradient
  at::Tensor& shard_gradient() { return shard_gradient_; }
  void forget_gradients();

  /// The whole of a tensor like shard(), on every rank: a new buffer, [layout().whole].
  at::Tensor gather(const at::Tensor& like_shard) const;
  /// Elements of slot `i` in such a buffer.
  at::Tensor slot(const at::Tensor& whole, std::size_t i) const;

private:
  void allocate();
  void point_leaves();
  /// Gathered parts, rank after rank, to the whole buffer and back: the same memory for Split::flat.
  void put_together(const at::Tensor& parts, const at::Tensor& whole) const;
  void take_apart(const at::Tensor& whole, const at::Tensor& parts) const;

  std::vector<at::Tensor> leaves_;
  std::vector<std::vector<std::int64_t>> sizes_, strides_;
  FlatLayout layout_;
  const bool resident_, by_reference_, trained_;
  const at::ScalarType gather_type_, reduce_type_;
  ProcessGroup &gathers_, &reductions_;
  LiveBytes& live_;
  at::Tensor shard_, whole_, parts_;  ///< parts_: gathered slices, while they travel
  at::Tensor gradient_, travelling_, arrived_, shard_gradient_;
  Pending gathering_, reducing_;
  bool there_ = false, outdated_ = false;
};

}  // namespace cirrus::dist
