// The stop flag and its handlers; see signals.h.
#include "base/signals.h"

#include <atomic>
#include <csignal>
#include <initializer_list>

#include "base/errors.h"

namespace cirrus::signals {
namespace {

std::atomic<int> requested{0};
std::atomic<bool> interrupted_once{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void on_signal(int signal) {
  if (signal == SIGINT && interrupted_once.exchange(true)) {
    // The user insists: die of the signal itself, so that the shell sees it.
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
    return;
  }
  // The first request stands, but "time is nearly up" must not hide one to end.
  int before = 0;
  if (!requested.compare_exchange_strong(before, signal) && before == SIGUSR1) requested = signal;
}

}  // namespace

void install() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    // A shell that starts us in the background ignores SIGINT for us, nohup SIGHUP: keep that.
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

int stop_requested() { return requested.load(std::memory_order_relaxed); }

void check_interrupt() {
  const int signal = stop_requested();
  if (signal == SIGINT) throw Error(ExitCode::interrupted, "interrupted");
  if (signal == SIGTERM) throw Error(ExitCode::interrupted, "stopped by SIGTERM");
  if (signal == SIGHUP) throw Error(ExitCode::interrupted, "stopped by SIGHUP (its terminal was closed)");
}

void request_stop(int signal) {
  requested = signal;
  if (signal == 0) interrupted_once = false;
}

}  // namespace cirrus::signals
