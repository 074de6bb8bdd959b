// What the ranks of a world talk over: a store where they meet and tell each other how they are, and communicators for
// tensors in host memory. For the rest of dist/ only; others use World and ProcessGroup.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "dist/launcher.h"
#include "dist/process_group.h"
#include "dist/watchdog.h"
#include "dist/world.h"

namespace cirrus::dist {

/// Where the ranks have met: rank 0 serves a store there.
struct Rendezvous {
  std::string host, prefix;
  int port = 0;
  c10::intrusive_ptr<c10d::Store> store;

  /// Another connection to the same store, for another thread.
  c10::intrusive_ptr<c10d::Store> connect() const;
  /// Each rank's text, by rank, through the store.
  std::vector<std::string> exchange(const std::string& name, int rank, int size, const std::string& text) const;
};

/// Meets all ranks: over MPI, where rank 0 tells its addresses, or at MASTER_ADDR:MASTER_PORT. Throws
/// Error(unavailable) naming the ranks that did not come in time.
Rendezvous meet(const World& world, const Launch& launch);

class Connection {
public:
  Connection(Rendezvous meeting, bool mpi) : meeting_(std::move(meeting)), mpi_(mpi) {}

  const c10::intrusive_ptr<c10d::Store>& store() const { return meeting_.store; }
  const Rendezvous& meeting() const { return meeting_; }
  /// Whether tensors in host memory travel by MPI; else they go through the store, which is for small ones.
  bool has_mpi() const { return mpi_; }
  Watchdog& watchdog() { return *watchdog_; }
  void watch(std::unique_ptr<Watchdog> watchdog) { watchdog_ = std::move(watchdog); }

  /// A backend for host tensors among the ranks of equal `color`, where this process is rank `rank` of `size`. All
  /// ranks of the world call it in the same order; `name` says what for.
  c10::intrusive_ptr<c10d::Backend> host_backend(const std::string& name, int color, int rank, int size);

  void open_control(const World& world);
  /// All ranks, host tensors: for agreements.
  ProcessGroup& control() { return *control_; }
  std::uint64_t next_meeting() { return meetings_++; }
  /// Leaves in order: rank 0, who serves the store, last.
  void close(int rank, int size);

private:
  Rendezvous meeting_;
  bool mpi_;
  std::unique_ptr<Watchdog> watchdog_;
  std::shared_ptr<ProcessGroup> control_;
  std::uint64_t meetings_ = 0;
};

}  // namespace cirrus::dist
