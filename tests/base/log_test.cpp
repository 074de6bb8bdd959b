// Who hears what: levels, the log file, ranks that do not speak, --json and --strict.
#include "base/log.h"

#include <boost/test/unit_test.hpp>
#include <regex>

#include "base/errors.h"
#include "tests/base/scratch_folder.h"

using namespace cirrus;
using namespace cirrus::test;

namespace {

struct Restored {
  Restored() { log::set_program("cirrus enhance"); }
  ~Restored() {
    log::configure({});
    log::set_speaking(true);
  }
};

std::string all_levels() {
  return printed(2, [] {
    log::debug("one");
    log::info("two");
    log::warning("three");
    log::error("four");
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(logging, *boost::unit_test::fixture<Restored>())

BOOST_AUTO_TEST_CASE(levels_follow_quiet_and_verbose) {
  log::configure({});
  BOOST_TEST(all_levels() == "two\ncirrus enhance: warning: three\ncirrus enhance: error: four\n");
  log::configure({.quiet = true});
  BOOST_TEST(all_levels() == "cirrus enhance: warning: three\ncirrus enhance: error: four\n");
  log::configure({.verbose = true});
  BOOST_TEST(all_levels() == "one\ntwo\ncirrus enhance: warning: three\ncirrus enhance: error: four\n");
}

BOOST_AUTO_TEST_CASE(the_file_has_everything_with_utc_time_and_no_escape_codes) {
  const ScratchFolder folder;
  put(folder / "run.log", "earlier run\n");
  log::configure({.quiet = true, .file = (folder / "run.log").string()});
  all_levels();
  log::configure({});
  const std::string text = contents(folder / "run.log");
  const std::string time = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ )";
  BOOST_TEST(std::regex_match(text, std::regex("earlier run\n" + time + "debug one\n" + time + "info two\n" + time +
                                               "warning three\n" + time + "error four\n")),
             text);
}

BOOST_AUTO_TEST_CASE(a_log_file_that_cannot_be_made_is_73) {
  const ScratchFolder folder;
  BOOST_CHECK_EXCEPTION(log::configure({.file = folder.path().string()}), Error,
                        [](const Error& error) { return error.code() == ExitCode::cannot_create; });
}

BOOST_AUTO_TEST_CASE(results_go_to_stdout_unless_json_has_it) {
  BOOST_TEST(printed(1, [] { log::print("chi2 1.02"); }) == "chi2 1.02\n");
  log::configure({.json = true});
  const std::string out = printed(1, [] {
    log::print("chi2 1.02");
    log::print_json("{}");
    log::info("message");
  });
  BOOST_TEST(out == "{}\n");
}

BOOST_AUTO_TEST_CASE(other_ranks_only_report_errors) {
  log::set_speaking(false);
  BOOST_TEST(all_levels() == "cirrus enhance: error: four\n");
  BOOST_TEST(printed(1, [] { log::print("x"), log::print_json("{}"); }).empty());
}

BOOST_AUTO_TEST_CASE(warnings_are_kept_once_each_in_order) {
  const std::size_t before = log::warnings().size();
  printed(2, [] {
    log::warning("no BUNIT");
    log::warning("beam estimated");
    log::warning("no BUNIT");
  });
  const std::vector<std::string> kept = log::warnings();
  BOOST_TEST_REQUIRE(kept.size() == before + 2);
  BOOST_TEST(kept[before] == "no BUNIT");
  BOOST_TEST(kept[before + 1] == "beam estimated");
}

BOOST_AUTO_TEST_CASE(strict_makes_a_warning_an_error_65) {
  log::configure({.strict = true});
  BOOST_CHECK_EXCEPTION(log::warning("no BUNIT"), Error, [](const Error& error) {
    return error.code() == ExitCode::bad_data && std::string(error.what()).starts_with("no BUNIT");
  });
}

BOOST_AUTO_TEST_SUITE_END()
