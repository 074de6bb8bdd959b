// Beats, looks and last words.
#include "dist/watchdog.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/errors.h"
#include "base/log.h"
#include "dist/mpi_backend.h"
#include "dist/seconds.h"

namespace cirrus::dist {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBeat = std::chrono::milliseconds(1000);
constexpr double kSilent = 30;  // seconds without a beat after which a rank counts as dead
constexpr auto kFailTogether = std::chrono::seconds(3);
constexpr auto kLeadFirst = std::chrono::milliseconds(2000), kPassOn = std::chrono::milliseconds(500);

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }
std::string status_key(std::size_t rank) { return "status/" + std::to_string(rank); }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// The lead, whose words reach the launcher in the fewest steps, and who sees all ranks, speaks first; a launcher told
/// to end all drops what it has not passed on yet.
[[noreturn]] void end(int rank, const std::string& message) {
  if (rank != 0) std::this_thread::sleep_for(kLeadFirst);
  log::error(message);
  std::this_thread::sleep_for(kPassOn);
  Watchdog::end_all(static_cast<int>(ExitCode::internal));
}

std::string rounded(double seconds) { return std::to_string(static_cast<long>(std::lround(seconds))) + " s"; }

}  // namespace

double Watchdog::timeout() { return seconds_from("CIRRUS_TIMEOUT", 300); }

Watchdog::Watchdog(c10::intrusive_ptr<c10d::Store> store, int rank, std::vector<std::string> names)
    : store_(std::move(store)),
      rank_(rank),
      names_(std::move(names)),
      beats_(names_.size()),
      changed_(names_.size(), Clock::now()),
      store_answered_(Clock::now()) {
  timeout();  // what is no number is said now
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watchdog::began(const c10::intrusive_ptr<c10d::Work>& work, const std::string& group, std::uint64_t number,
                     const std::string& what) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({c10::weak_intrusive_ptr<c10d::Work>(work), group, what, number, Clock::now()});
  oldest();
}

void Watchdog::set_phase(const std::string& phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
}

const Watchdog::Waiting* Watchdog::oldest() {
  std::erase_if(waiting_, [&](const Waiting& w) {
    const auto work = w.work.lock();
    const bool done = !work || work->isCompleted();
    if (done) last_ = w.what + " (number " + std::to_string(w.number) + " of " + w.group + ")";
    return done;
  });
  return waiting_.empty() ? nullptr : &waiting_.front();
}

void Watchdog::publish() {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    const Waiting* w = oldest();
    text = w != nullptr ? "waits in " + w->what + " (number " + std::to_string(w->number) + " of " + w->group + ")"
                        : "computes (" + phase_ + "); its last collective was " + last_;
  }
  store_->set(status_key(static_cast<std::size_t>(rank_)), bytes_of(std::to_string(++beat_) + "|" + text));
}

void Watchdog::look_at_others() {
  for (std::size_t r = 0; r < names_.size(); ++r) {
    if (static_cast<int>(r) == rank_ || (rank_ != 0 && r != 0)) continue;  // the lead looks at all, all at the lead
    if (!store_->check({status_key(r)})) continue;
    std::string beat = text_of(store_->get(status_key(r)));
    if (beat == "left") continue;
    if (beat != beats_[r]) {
      beats_[r] = std::move(beat);
      changed_[r] = Clock::now();
    } else if (seconds_since(changed_[r]) > kSilent) {
      end(rank_,
          names_[r] + " has given no sign of life for " + rounded(seconds_since(changed_[r])) +
              ": its process has died or stands still, or its host is cut off. Resume from the last checkpoint with "
              "--resume");
    }
  }
}

void Watchdog::give_up(const Waiting& waiting) {
  const std::string place = waiting.what + " (number " + std::to_string(waiting.number) + " of " + waiting.group + ")";
  std::string message = names_[static_cast<std::size_t>(rank_)] + " has waited for " +
                        rounded(seconds_since(waiting.since)) + " in " + place + ".";
  try {
    for (std::size_t r = 0; r < names_.size(); ++r) {
      if (static_cast<int>(r) == rank_) continue;
      const std::string beat = store_->check({status_key(r)}) ? text_of(store_->get(status_key(r))) : "";
      const auto bar = beat.find('|');
      const bool silent = rank_ == 0 && seconds_since(changed_[r]) > 5;
      if (bar == std::string::npos) {
        message += " " + names_[r] + (beat.empty() ? " never came." : " has left.");
      } else if (beat.compare(bar + 1, std::string::npos, "waits in " + place) == 0 && !silent) {
        message += " " + names_[r] + " waits there too.";
      } else {
        message += " " + names_[r] + " is not there: it " +
                   (silent ? "has been silent for " + rounded(seconds_since(changed_[r])) + "; before, it " : "") +
                   beat.substr(bar + 1) + ".";
      }
    }
  } catch (const std::exception&) {
    message += " What the others do is not known: the store on " + names_[0] +
               " does not answer. Is the network between the hosts up?";
  }
  end(rank_, message + " CIRRUS_TIMEOUT sets how long to wait");
}

void Watchdog::end_all(int code) {
  std::fflush(nullptr);
  std::thread([code] {  // should MPI's own end be stuck as well
    std::this_thread::sleep_for(std::chrono::seconds(5));
    _exit(code);
  })
      .detach();
  abort_mpi(code);
  _exit(code);
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kBeat, [&] { return stop_; })) {
    if (failing_) continue;
    if (const Waiting* w = oldest(); w != nullptr && seconds_since(w->since) > timeout()) {
      const Waiting stuck = *w;
      lock.unlock();
      give_up(stuck);
    }
    lock.unlock();
    std::string failure;
    try {
      publish();
      look_at_others();
      if (store_->check({"failed"})) failure = text_of(store_->get("failed"));
      store_answered_ = Clock::now();
    } catch (const std::exception&) {
      if (seconds_since(store_answered_) > kSilent)
        end(rank_, "The store on " + names_[0] + " has not answered " + names_[static_cast<std::size_t>(rank_)] +
                       " for " + rounded(seconds_since(store_answered_)) +
                       ": that process has died, or the network between the hosts is down. Resume from the last "
                       "checkpoint with "
                       "--resume");
    }
    // Who failed has said why; it waits a while for others to fail in the same way.
    if (!failure.empty()) {
      static const auto told = Clock::now();
      lock.lock();
      const bool stands = !failing_ && seconds_since(told) > 10;
      lock.unlock();
      if (stands) end(rank_, "ends because " + failure);
    }
    lock.lock();
  }
  lock.unlock();
  try {
    if (!failing_) store_->set(status_key(static_cast<std::size_t>(rank_)), bytes_of("left"));
  } catch (const std::exception&) {  // the lead has left before
  }
}

bool Watchdog::failed(int code, const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    failing_ = true;
  }
  failed_alone_ = true;
  agreed_code_ = code;
  try {
    store_->setTimeout(std::chrono::seconds(2));
    store_->set("failed/" + std::to_string(rank_), bytes_of(std::to_string(code)));
    store_->set("failed", bytes_of(names_[static_cast<std::size_t>(rank_)] + " failed: " + message));
    const auto size = static_cast<std::int64_t>(names_.size());
    store_->add("failures", 1);
    const auto started = Clock::now();
    while (Clock::now() - started < kFailTogether) {
      if (store_->add("failures", 0) >= size) {
        failed_alone_ = false;
        agreed_code_ = std::atoi(text_of(store_->get("failed/0")).c_str());
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  } catch (const std::exception&) {  // the store is gone: so is the lead
  }
  return false;
}

}  // namespace cirrus::dist
