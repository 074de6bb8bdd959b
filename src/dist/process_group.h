// Ranks that work on something together: collectives on tensors of their device, counted, watched, and always those of
// the backend object. (The dispatcher's c10d operators, where a device has no kernel for them, fall back to a copy on
// the CPU and return data that nobody reduced.)
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "device/device.h"
#include "dist/traffic.h"
#include "dist/world.h"

namespace cirrus::dist {

/// A collective on its way. Its tensors must not be touched before wait().
class Pending {
public:
  Pending() = default;
  explicit Pending(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  /// On devices with queues, makes the queue wait; on the CPU, the caller. Throws what went wrong.
  void wait() {
    if (work_) work_->wait();
    work_.reset();
  }
  bool is_pending() const { return work_.defined(); }
  const c10::intrusive_ptr<c10d::Work>& work() const { return work_; }

private:
  c10::intrusive_ptr<c10d::Work> work_;
};

class ProcessGroup {
public:
  /// A group of this process alone.
  ProcessGroup() = default;
  ProcessGroup(c10::intrusive_ptr<c10d::Backend> backend, std::string name, Connection* connection);

  int rank() const { return backend_ ? backend_->getRank() : 0; }
  int size() const { return backend_ ? backend_->getSize() : 1; }
  const std::string& name() const { return name_; }
  const c10::intrusive_ptr<c10d::Backend>& backend() const { return backend_; }

  // All ranks of the group call the same collectives in the same order. `site` says what for. Tensors are dense, and
  // alike on all ranks.
  Pending all_reduce(const at::Tensor& tensor, Reduce op, const char* site);
  /// `out` holds size() times `in`, in rank order. `in` may be the rank's own part of `out`.
  Pending all_gather(const at::Tensor& out, const at::Tensor& in, const char* site);
  /// `in` holds size() times `out`.
  Pending reduce_scatter(const at::Tensor& out, const at::Tensor& in, const char* site);
  Pending broadcast(const at::Tensor& tensor, int root, const char* site);
  /// Rows of `in` go to each rank, rows of `out` come from each, so many as said, in rank order.
  Pending exchange(const at::Tensor& out, std::vector<std::int64_t> out_rows, const at::Tensor& in,
                   std::vector<std::int64_t> in_rows, const char* site);
  void barrier(const char* site);

  const Traffic& traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }

private:
  Pending began(c10::intrusive_ptr<c10d::Work> work, const char* operation, const char* site);
  void count(Traffic::Kind& kind, std::int64_t bytes, double share);

  c10::intrusive_ptr<c10d::Backend> backend_;
  std::string name_;
  Connection* connection_ = nullptr;
  std::uint64_t number_ = 0;
  Traffic traffic_;
};

/// Which ranks of the world form a group: those of equal `color`; this one is `rank` of `size` there.
struct Members {
  std::string name;
  int color = 0, rank = 0, size = 1;
};
Members all_ranks(const World& world, const std::string& name);
Members ranks_of_node(const World& world, const std::string& name);       ///< world must be uniform
Members ranks_across_nodes(const World& world, const std::string& name);  ///< those with the same local rank

/// A group for tensors of the device: its own collective library (NCCL, HCCL), MPI for host memory, or host memory as a
/// stop on the way where the device has none (CIRRUS_COLLECTIVES=host forces that). All ranks of the world call it in
/// the same order. Throws Error(unavailable) for several CPU ranks without MPI.
std::shared_ptr<ProcessGroup> make_group(const World& world, const device::Device& device, const Members& members);

}  // namespace cirrus::dist
