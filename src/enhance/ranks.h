// The ranks that enhance a map together: how they wait for each other, agree on errors, and pass maps to and from the
// lead. A run of one rank communicates nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "device/device.h"
#include "dist/process_group.h"
#include "dist/world.h"

namespace cirrus::enhance {

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

  /// Waits for all ranks, however much more work some have than others: nothing here runs into the time limit of
  /// collectives. Throws Error(interrupted) once a signal came.
  void meet();

  /// Runs `work` on all ranks, then lets them agree: an error of one is thrown by all, that of the lowest rank if there
  /// are several. For what communicates nothing.
  void agree(const std::function<void()>& work);

  /// A map of `owner`'s becomes the lead's. float64, on the host, of one shape; ranks that are neither may give none.
  void to_lead(const at::Tensor& map, int owner);
  /// The lead's map becomes everyone's.
  void from_lead(const at::Tensor& map);

  /// Groups of `size` neighbouring ranks, for tensors of the device: ranks 0 to size - 1, and so on.
  dist::ProcessGroup& team(int size);

private:
  at::Tensor wired(const at::Tensor& map) const;
  at::Tensor wire_for(std::int64_t pixels) const;
  void unwire(const at::Tensor& wire, const at::Tensor& map) const;

  dist::World world_;
  const device::Device* device_ = nullptr;
  bool through_device_ = false;  ///< without MPI: maps reach other ranks by way of the device
  std::shared_ptr<dist::ProcessGroup> maps_;
  std::map<int, std::shared_ptr<dist::ProcessGroup>> teams_;
  std::uint64_t meetings_ = 0;
};

}  // namespace cirrus::enhance
