// One thread a process that looks whether the run still moves: it tells the others through the store that this rank
// lives and what it waits for, and ends the process (exit 70) when a collective takes too long, another rank has gone
// silent, or one has failed, with a sentence that says which rank waits where and which never came.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace cirrus::dist {

class Watchdog {
public:
  /// `store`: a connection of its own. `names`: how to call each rank, "rank 2 on node17".
  Watchdog(c10::intrusive_ptr<c10d::Store> store, int rank, std::vector<std::string> names);
  ~Watchdog();

  /// A collective has been queued: number `number` of its group. `site`: what it is for, "gradients".
  void began(const c10::intrusive_ptr<c10d::Work>& work, const std::string& group, std::uint64_t number,
             const std::string& what);
  /// What this rank does between collectives: "step 17".
  void set_phase(const std::string& phase);

  /// This rank fails with `code`. Waits up to 3 s for the others to fail as well. True if they all did: then one
  /// message (the lead's) is enough, and all may leave in order.
  bool failed(int code, const std::string& message);
  bool failed_alone() const { return failed_alone_; }
  int agreed_code() const { return agreed_code_; }

  /// Ends this process and, where MPI runs, all others with it, whatever threads they are stuck in.
  [[noreturn]] static void end_all(int code);

  /// Seconds a collective may take (CIRRUS_TIMEOUT, 300).
  static double timeout();

private:
  struct Waiting {
    c10::weak_intrusive_ptr<c10d::Work> work;
    std::string group, what;
    std::uint64_t number;
    std::chrono::steady_clock::time_point since;
  };
  void watch();
  /// Drops what is done; the oldest collective that is not, or null.
  const Waiting* oldest();
  void publish();
  void look_at_others();
  void give_up(const Waiting& waiting);

  c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const std::vector<std::string> names_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::deque<Waiting> waiting_;
  std::string phase_ = "starting", last_ = "none yet";
  std::vector<std::string> beats_;                              ///< of the others, as last read
  std::vector<std::chrono::steady_clock::time_point> changed_;  ///< when each of those was new
  std::chrono::steady_clock::time_point store_answered_;
  std::uint64_t beat_ = 0;
  bool failed_alone_ = false, failing_ = false;
  int agreed_code_ = 0;
  std::thread thread_;
};

}  // namespace cirrus::dist
