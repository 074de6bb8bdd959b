// Progress with a clock of its own: how often it speaks and what it says.
#include "base/progress.h"

#include <boost/test/unit_test.hpp>
#include <regex>
#include <thread>
#include <vector>

using namespace cirrus;

namespace {

struct Recorder {
  double now = 100;
  std::vector<std::string> bars, lines;
  Progress::Output output(bool terminal) {
    return {terminal, [this] { return now; }, [this](const std::string& s) { bars.push_back(s); },
            [this](const std::string& s) { lines.push_back(s); }};
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(progress)

BOOST_AUTO_TEST_CASE(without_a_terminal_at_most_one_line_in_30_seconds) {
  Recorder recorder;
  {
    Progress progress("enhance", 400, "tiles", recorder.output(false));
    for (int second = 0; second < 200; ++second) {
      recorder.now += 1;
      progress.advance(2);
    }
  }
  BOOST_TEST_REQUIRE(recorder.lines.size() == 6u);
  BOOST_TEST(recorder.bars.empty());
  const std::regex form(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ enhance: 60/400 tiles \(15 %\), 2 tiles/s, 2 min 50 s left)");
  BOOST_TEST(std::regex_match(recorder.lines[0], form), recorder.lines[0]);
}

BOOST_AUTO_TEST_CASE(on_a_terminal_a_bar_that_is_removed_at_the_end) {
  Recorder recorder;
  {
    Progress progress("train", 10, "steps", recorder.output(true));
    for (int i = 0; i < 5; ++i) {
      recorder.now += 4;
      progress.advance();
    }
    recorder.now += 0.01;
    progress.advance();  // too early to draw again
  }
  BOOST_TEST_REQUIRE(recorder.bars.size() == 6u);
  BOOST_TEST(recorder.lines.empty());
  BOOST_TEST(recorder.bars[4].starts_with("train ["));
  BOOST_TEST(recorder.bars[4].ends_with("5/10 steps (50 %), 4 s/step, 20 s left"));
  BOOST_TEST(recorder.bars[4].size() < 80u);
  BOOST_TEST(recorder.bars[5].empty());
}

BOOST_AUTO_TEST_CASE(an_unknown_total_has_no_share_and_no_time_left) {
  Recorder recorder;
  Progress progress("read", 0, "maps", recorder.output(false));
  recorder.now += 30;
  progress.advance(60);
  BOOST_TEST_REQUIRE(recorder.lines.size() == 1u);
  BOOST_TEST(recorder.lines[0].ends_with("read: 60 maps, 2 maps/s"));
}

BOOST_AUTO_TEST_CASE(threads_lose_no_count) {
  Recorder recorder;
  Progress progress("fields", 40000, "fields", recorder.output(false));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) progress.advance();
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(progress.done() == 40000);
}

BOOST_AUTO_TEST_CASE(lengths_of_time_read_well) {
  BOOST_TEST(duration_text(0.84) == "0.8 s");
  BOOST_TEST(duration_text(9.97) == "10 s");
  BOOST_TEST(duration_text(45.2) == "45 s");
  BOOST_TEST(duration_text(200) == "3 min 20 s");
  BOOST_TEST(duration_text(3599.7) == "1 h 00 min");
  BOOST_TEST(duration_text(7500) == "2 h 05 min");
  BOOST_TEST(duration_text(1.0 / 0.0) == "very long");
}

BOOST_AUTO_TEST_SUITE_END()
