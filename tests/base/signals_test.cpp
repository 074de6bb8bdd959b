// Signals as the operating system delivers them, each in a child process.
#include "base/signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>

#include "base/errors.h"

using namespace cirrus;

namespace {

/// What a process does that gets these signals, one after another: its exit code, or minus the signal that killed it.
/// `ignored` is ignored when it starts. With `ends_here` it then asks check_interrupt(); else it exits with the signal
/// seen.
int outcome(std::initializer_list<int> sent, bool ends_here, int ignored = 0) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGINT, SIGHUP}) std::signal(signal, ignored == signal ? SIG_IGN : SIG_DFL);
    signals::install();
    for (const int signal : sent) raise(signal);
    if (!ends_here) _exit(signals::stop_requested());
    try {
      signals::check_interrupt();
    } catch (const Error& error) {
      _exit(static_cast<int>(error.code()));
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(signal_handling)

BOOST_AUTO_TEST_CASE(the_first_signal_is_remembered) {
  BOOST_TEST(outcome({}, false) == 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) BOOST_TEST(outcome({signal}, false) == signal);
  BOOST_TEST(outcome({SIGTERM, SIGUSR1}, false) == SIGTERM);
  BOOST_TEST(outcome({SIGUSR1, SIGTERM}, false) == SIGTERM);
}

BOOST_AUTO_TEST_CASE(a_second_interrupt_kills_at_once) {
  BOOST_TEST(outcome({SIGINT, SIGINT}, false) == -SIGINT);
  BOOST_TEST(outcome({SIGTERM, SIGINT, SIGINT}, false) == -SIGINT);
  BOOST_TEST(outcome({SIGTERM, SIGTERM, SIGINT}, false) == SIGTERM);
}

BOOST_AUTO_TEST_CASE(loops_without_checkpoints_end_with_130) {
  BOOST_TEST(outcome({}, true) == 0);
  BOOST_TEST(outcome({SIGINT}, true) == 130);
  BOOST_TEST(outcome({SIGTERM}, true) == 130);
  BOOST_TEST(outcome({SIGHUP}, true) == 130);
  BOOST_TEST(outcome({SIGUSR1}, true) == 0);
}

BOOST_AUTO_TEST_CASE(signals_that_the_parent_ignores_stay_ignored) {  // background jobs, nohup
  for (const int signal : {SIGINT, SIGHUP}) BOOST_TEST(outcome({signal}, true, signal) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
