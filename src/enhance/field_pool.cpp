// The moving window and the threads that fill it.
#include "enhance/field_pool.h"

#include <omp.h>

#include "base/signals.h"

namespace cirrus::enhance {

FieldPool::FieldPool(Maker make, const Options& options, std::int64_t first_step, const FieldSharing* sharing)
    : make_(std::move(make)),
      options_(options),
      sharing_(sharing),
      window_end_(first_of(first_step)),
      next_(first_of(first_step)) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { make_fields(); });
}

FieldPool::~FieldPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_all();
  for (std::thread& t : threads_) t.join();
}

std::uint64_t FieldPool::first_of(std::int64_t step) const {
  return static_cast<std::uint64_t>(std::floor(static_cast<double>(step) * options_.fields_per_step));
}

void FieldPool::make_fields() {
  omp_set_num_threads(1);  // this thread's share; the training step has its own
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [&] { return stop_ || next_ < window_end_ + static_cast<std::uint64_t>(options_.ahead); });
    if (stop_) return;
    const std::uint64_t index = next_++;
    if (!makes(index)) continue;
    lock.unlock();
    std::shared_ptr<TrainingField> field;
    std::exception_ptr failure;
    try {
      field = std::make_shared<TrainingField>(make_(index));
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    ready_[index] = std::move(field);
    made_.notify_all();
  }
}

void FieldPool::advance_to(std::int64_t step) {
  const std::uint64_t end = first_of(step) + static_cast<std::uint64_t>(options_.window);
  std::unique_lock lock(mutex_);
  while (window_end_ < end) {
    bool stopped = false;
    while (makes(window_end_) && !ready_.contains(window_end_) && !failure_ && !stopped) {
      made_.wait_for(lock, std::chrono::milliseconds(200));
      stopped = signals::stop_requested() != 0;  // the trainer sees the request too
    }
    if (failure_) std::rethrow_exception(failure_);
    std::shared_ptr<TrainingField> field;
    if (const auto made = ready_.find(window_end_); made != ready_.end()) {
      field = std::move(made->second);
      ready_.erase(made);
    }
    lock.unlock();
    if (sharing_ != nullptr) field = sharing_->share(window_end_, std::move(field));
    lock.lock();
    if (!field) return;
    window_.push_back(std::move(field));
    ++window_end_;
    if (static_cast<std::int64_t>(window_.size()) > options_.window) window_.pop_front();
    wanted_.notify_all();
  }
}

}  // namespace cirrus::enhance
