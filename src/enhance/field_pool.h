// The pool of training fields: a window over the endless sequence of fields that moves on as training goes. What the
// pool holds at a step is a function of the step alone, so that a resumed run sees what an uninterrupted one sees.
// Threads of its own make fields ahead of need.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "enhance/field_sharing.h"
#include "enhance/training_field.h"

namespace cirrus::enhance {

class FieldPool {
public:
  struct Options {
    std::int64_t window = 512;      ///< fields held
    double fields_per_step = 0.25;  ///< how fast the window moves
    int threads = 1;                ///< that make fields
    std::int64_t ahead = 32;        ///< fields made before they are needed
  };
  /// Makes field number i; called from several threads at a time.
  using Maker = std::function<TrainingField(std::uint64_t)>;
  /// Starts making the fields of `first_step`'s window and on from there: this rank's, where `sharing` is given.
  FieldPool(Maker make, const Options& options, std::int64_t first_step, const FieldSharing* sharing = nullptr);
  ~FieldPool();
  FieldPool(const FieldPool&) = delete;
  FieldPool& operator=(const FieldPool&) = delete;

  /// Moves the window to `step` (which never decreases), waiting for fields that are not made yet. Returns early
  /// on a stop request, on all ranks that share fields. All of them call it.
  void advance_to(std::int64_t step);
  /// Number of fields in the window, and field k of it (0 = oldest). Valid until the next advance_to().
  std::int64_t size() const { return options_.window; }
  const TrainingField& field(std::int64_t k) const { return *window_[static_cast<std::size_t>(k)]; }

private:
  std::uint64_t first_of(std::int64_t step) const;
  void make_fields();
  bool makes(std::uint64_t index) const { return sharing_ == nullptr || sharing_->makes(index); }

  const Maker make_;
  const Options options_;
  const FieldSharing* const sharing_;
  std::deque<std::shared_ptr<TrainingField>> window_;
  std::uint64_t window_end_;  ///< index of the field after the newest in the window

  std::mutex mutex_;
  std::condition_variable made_, wanted_;
  std::map<std::uint64_t, std::shared_ptr<TrainingField>> ready_;
  std::uint64_t next_;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace cirrus::enhance
