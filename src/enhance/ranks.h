// The ranks that enhance a map together: how they wait for each other, agree on errors, and pass maps to and from the
// lead. A run of one rank communicates nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "device/device.h"
#include "dist/world.h"

namespace cirrus::dist {
class ProcessGroup;
struct Members;
}  // namespace cirrus::dist

namespace cirrus::enhance {

/// Ranks that pass maps to each other: float64, on the host, dense, of one shape on all of them. All ranks of a group
/// make the same calls in the same order; no rank may come to a call much later than others (see Ranks::meet). Where
/// ranks have no MPI, maps travel by way of the device; one without float64 carries 48 of the 53 bits.
class MapGroup {
public:
  /// This process alone.
  MapGroup();
  /// `device`: by whose collectives; null: those of the host.
  MapGroup(std::shared_ptr<dist::ProcessGroup> group, const device::Device* device)
      : group_(std::move(group)), device_(device) {}

  int rank() const;
  int size() const;
  bool is_first() const { return rank() == 0; }

  /// A map of `owner`'s becomes rank 0's; others may give none.
  void to_first(const at::Tensor& map, int owner);
  /// Rank 0's map becomes everyone's.
  void from_first(const at::Tensor& map);
  /// Maps of which at most one rank's is not zero, at each pixel, become their sum.
  void put_together(const at::Tensor& map);

private:
  at::Tensor wired(const at::Tensor& map) const;
  at::Tensor wire_for(std::int64_t pixels) const;
  void unwire(const at::Tensor& wire, const at::Tensor& map) const;

  std::shared_ptr<dist::ProcessGroup> group_;
  const device::Device* device_ = nullptr;
};

class Ranks {
public:
  /// This process alone.
  Ranks() = default;
  /// All ranks of the world make theirs at the same time. Throws Error(unavailable) as dist::make_group.
  Ranks(const dist::World& world, const device::Device& device);

  int rank() const { return world_.rank; }
  int size() const { return world_.size; }
  bool is_lead() const { return world_.is_lead(); }

  // What follows is called by all ranks in the same order.

  /// Waits for all ranks, as dist::meet().
  void meet() { dist::meet(world_); }

  /// Runs `work` on all ranks, then lets them agree: an error of one is thrown by all, that of the lowest rank if there
  /// are several. For what communicates nothing.
  void agree(const std::function<void()>& work);

  /// For maps among all ranks.
  MapGroup& all() { return all_; }
  /// For maps, and for tensors of the device, among `size` neighbouring ranks: ranks 0 to size - 1, and so on.
  MapGroup& team(int size);
  dist::ProcessGroup& team_on_device(int size);

private:
  MapGroup maps_of(const dist::Members& members) const;
  dist::Members neighbours(const char* what, int size) const;

  dist::World world_;
  const device::Device* device_ = nullptr;
  MapGroup all_;
  std::map<int, MapGroup> teams_;
  std::map<int, std::shared_ptr<dist::ProcessGroup>> teams_on_device_;
  std::uint64_t meetings_ = 0;
};

}  // namespace cirrus::enhance
