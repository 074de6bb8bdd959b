// Threads and ranks from the environment, time strings, nearest names.
#include "base/run_options.h"

#include <sched.h>

#include <boost/test/unit_test.hpp>
#include <deque>
#include <regex>

#include "base/clock.h"
#include "base/errors.h"
#include "base/nearest.h"
#include "tests/base/scratch_folder.h"

using namespace cirrus;
using cirrus::test::Environment;

namespace {

constexpr const char* kVariables[] = {"SLURM_CPUS_PER_TASK",
                                      "OMP_NUM_THREADS",
                                      "MPI_LOCALNRANKS",
                                      "OMPI_COMM_WORLD_LOCAL_SIZE",
                                      "LOCAL_WORLD_SIZE",
                                      "SLURM_NTASKS_PER_NODE",
                                      "PMI_RANK",
                                      "OMPI_COMM_WORLD_RANK",
                                      "SLURM_PROCID",
                                      "RANK"};

/// No launcher and no thread variables, whatever runs these tests.
struct Alone {
  Alone() {
    for (const char* variable : kVariables) cleared.emplace_back(variable, nullptr);
  }
  std::deque<Environment> cleared;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(thread_counts)

BOOST_FIXTURE_TEST_CASE(flag_then_slurm_then_openmp_then_cores, Alone) {
  const Environment slurm("SLURM_CPUS_PER_TASK", "6");
  {
    const Environment openmp("OMP_NUM_THREADS", "3,2");
    BOOST_TEST(resolve_threads(5) == 5);
    BOOST_TEST(resolve_threads(0) == 6);
    const Environment no_slurm("SLURM_CPUS_PER_TASK", nullptr);
    BOOST_TEST(resolve_threads(0) == 3);
  }
  const Environment no_slurm("SLURM_CPUS_PER_TASK", "");
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  BOOST_TEST(resolve_threads(0) >= 1);
  BOOST_TEST(resolve_threads(0) <= CPU_COUNT(&set));
}

BOOST_FIXTURE_TEST_CASE(one_core_of_affinity_is_one_thread, Alone) {
  cpu_set_t before, one;
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
  const int threads = resolve_threads(0);
  sched_setaffinity(0, sizeof before, &before);
  BOOST_TEST(threads == 1);
}

BOOST_FIXTURE_TEST_CASE(local_ranks_share_the_cores, Alone) {
  const int all = resolve_threads(0);
  const Environment ranks("MPI_LOCALNRANKS", "2");
  BOOST_TEST(resolve_threads(0) == std::max(all / 2, 1));
  const Environment many("MPI_LOCALNRANKS", "100000");
  BOOST_TEST(resolve_threads(0) == 1);
}

BOOST_FIXTURE_TEST_CASE(nonsense_in_a_variable_is_78, Alone) {
  for (const char* value : {"many", "0", "-2", "2x"}) {
    const Environment slurm("SLURM_CPUS_PER_TASK", value);
    BOOST_CHECK_EXCEPTION(resolve_threads(0), Error,
                          [](const Error& error) { return error.code() == ExitCode::config; });
  }
}

BOOST_FIXTURE_TEST_CASE(the_rank_is_the_launchers, Alone) {
  BOOST_TEST(launcher_rank() == 0);
  const Environment rank("RANK", "3");
  BOOST_TEST(launcher_rank() == 3);
  const Environment pmi("PMI_RANK", "1");
  BOOST_TEST(launcher_rank() == 1);
  const Environment odd("PMI_RANK", "colonel");
  BOOST_TEST(launcher_rank() == 3);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(time_strings)

BOOST_AUTO_TEST_CASE(source_date_epoch_fixes_the_date_of_files) {
  const Environment epoch("SOURCE_DATE_EPOCH", "1700000000");
  BOOST_TEST(file_date() == "2023-11-14T22:13:20");
  const std::regex now(R"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ)");
  BOOST_TEST(std::regex_match(utc_now(), now));
  const Environment none("SOURCE_DATE_EPOCH", nullptr);
  BOOST_TEST(std::regex_match(file_date() + "Z", now));
  for (const char* value : {"yesterday", "-1", "99999999999999"}) {
    const Environment bad("SOURCE_DATE_EPOCH", value);
    BOOST_CHECK_EXCEPTION(file_date(), Error, [](const Error& error) { return error.code() == ExitCode::config; });
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(nearest_names)

BOOST_AUTO_TEST_CASE(edits_are_counted) {
  BOOST_TEST(edit_distance("", "abc") == 3u);
  BOOST_TEST(edit_distance("kitten", "sitting") == 3u);
  BOOST_TEST(edit_distance("enhnace", "enhance") == 1u);
  BOOST_TEST(edit_distance("ca", "abc") == 3u);  // the optimal string alignment distance, not Damerau's 2
}

BOOST_AUTO_TEST_CASE(the_nearest_name_wins_and_an_abbreviation_counts_as_near) {
  BOOST_TEST(nearest_name("enhence", {"train", "enhance", "evaluate"}) == "enhance");
  BOOST_TEST(nearest_name("eval", {"train", "enhance", "evaluate"}) == "evaluate");
  BOOST_TEST(nearest_name("x", {}) == "");
}

BOOST_AUTO_TEST_SUITE_END()
