// The world a process finds itself in: one, or what the launcher and MPI agree on; disagreement is an error.
#include "dist/world.h"

#include <boost/test/unit_test.hpp>
#include <future>
#include <sstream>

#include "base/errors.h"
#include "tests/cli/subprocess.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

using Variables = std::map<std::string, std::string>;

test::Outcome probe(Variables set, std::vector<std::string> words = {}) {
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"})
    set.try_emplace(name, "");  // not from this test's own launcher
  return run("world_probe", words, {.environment = set});
}

test::Outcome ranks(int n, std::vector<std::string> words, Variables set = {}) {
  set.try_emplace("UCX_HANDLE_ERRORS", "none");
  words.insert(words.begin(), {"-n", std::to_string(n), program_path("world_probe").string()});
  return run(mpiexec(), words, {.environment = set});
}

/// Lines of a text in order.
std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// tests/mpi/three_hosts.sh; code 77: not possible here.
test::Outcome hosts(std::vector<std::string> words, const std::string& timeout) {
  const char* source = std::getenv("CIRRUS_SOURCE");
  BOOST_TEST_REQUIRE(source != nullptr);
  return run(std::string(source) + "/tests/mpi/three_hosts.sh", words,
             {.environment = {{"CIRRUS_TIMEOUT", timeout}, {"TORCH_CPP_LOG_LEVEL", "ERROR"}}});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(world)

BOOST_AUTO_TEST_CASE(a_program_started_plainly_is_a_world_of_one) {
  const test::Outcome plain = probe({}), by_one = probe({{"PMI_SIZE", "1"}}, {"single"});
  BOOST_TEST(plain.code == 0);
  BOOST_TEST(plain.out == "0 1 0 1 0 1 none\n");
  BOOST_TEST(by_one.code == 0);
  // mpiexec -n 1 inside a Slurm step of four tasks: the innermost launcher counts.
  BOOST_TEST(probe({{"PMI_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}}).out == plain.out);
  // A plain command in the shell of a batch job.
  BOOST_TEST(probe({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).out == plain.out);
}

/// N processes that each believe they are alone, by every launcher and library that do not match. The test's own
/// processes play the second: a variable stands for the launcher.
BOOST_AUTO_TEST_CASE(a_launcher_that_mpi_does_not_see_is_an_error_not_lonely_ranks) {
  struct Row {
    Variables set;
    const char *launcher, *cure;
  };
  const std::vector<Row> rows{
      {{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}},
       "mpirun (Open MPI) started 2",
       "use the mpiexec of"},
      {{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALRANKID", "1"}},
       "mpiexec (Hydra) started 2",
       "use the mpi"},  // another MPICH's mpiexec, or the mpirun of Open MPI
      {{{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "3"}}, "srun started 8", "use srun --mpi="},
      {{{"SLURM_STEP_NUM_TASKS", "8"}, {"PMIX_RANK", "3"}}, "srun --mpi=pmix started 8", "use srun --mpi="},
      {{{"PALS_SIZE", "4"}, {"PALS_RANKID", "0"}}, "PALS started 4", "launch with the mpiexec of"},
  };
  for (const Row& row : rows) {
    const test::Outcome o = probe(row.set);
    BOOST_TEST(o.code == 69);
    BOOST_TEST(contains(o.err, row.launcher), o.err);
    BOOST_TEST(contains(o.err, "sees a world of 1"), o.err);
    BOOST_TEST(contains(o.err, row.cure), o.err);
    BOOST_TEST(o.out == "");
  }
}

BOOST_AUTO_TEST_CASE(rank_and_world_size_alone_need_a_place_to_meet) {
  const test::Outcome nowhere = probe({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  BOOST_TEST(nowhere.code == 69);
  BOOST_TEST(contains(nowhere.err, "MASTER_ADDR"), nowhere.err);
  const test::Outcome without_rank = probe({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}});
  BOOST_TEST(without_rank.code == 69);
  BOOST_TEST(contains(without_rank.err, "RANK is not set"), without_rank.err);
  // Its partner never comes, and is named.
  const test::Outcome alone = probe({{"RANK", "0"},
                                     {"WORLD_SIZE", "2"},
                                     {"MASTER_ADDR", "127.0.0.1"},
                                     {"MASTER_PORT", "29713"},
                                     {"CIRRUS_RENDEZVOUS_TIMEOUT", "1"}});
  BOOST_TEST(alone.code == 69);
  BOOST_TEST(contains(alone.err, "did not come within 1 s: 1"), alone.err);
}

BOOST_AUTO_TEST_CASE(two_processes_meet_at_master_addr_and_may_not_compute_on_the_cpu) {
  const auto start = [](const char* rank, const char* command) {
    return std::async(std::launch::async, [=] {
      return probe({{"RANK", rank},
                    {"WORLD_SIZE", "2"},
                    {"LOCAL_RANK", rank},
                    {"MASTER_ADDR", "127.0.0.1"},
                    {"MASTER_PORT", "29714"}},
                   {command});
    });
  };
  auto a = start("0", "texts"), b = start("1", "texts");
  BOOST_TEST(a.get().out == "[][bbb]lead\n");
  BOOST_TEST(b.get().out == "[][bbb]lead\n");
  auto c = start("0", "collectives"), d = start("1", "collectives");
  const test::Outcome one = c.get(), two = d.get();
  BOOST_TEST(one.code == 69);
  BOOST_TEST(two.code == 69);
  BOOST_TEST(contains(one.err, "need MPI"), one.err);
  BOOST_TEST(two.err == "");  // said once
}

BOOST_AUTO_TEST_CASE(a_launcher_variable_that_is_no_number_is_an_error) {
  for (const char* value : {"two", "-1", "0", "2x", "99999999999999999999"}) {
    const test::Outcome o = probe({{"PMI_SIZE", value}});
    BOOST_TEST(o.code == 69);
    BOOST_TEST(contains(o.err, "PMI_SIZE = '" + std::string(value) + "'"), o.err);
  }
  BOOST_TEST(probe({{"PMI_SIZE", "2"}, {"PMI_RANK", "2"}}).code == 69);
}

BOOST_AUTO_TEST_CASE(work_of_one_process_refuses_a_larger_world) {
  dist::World world;
  BOOST_TEST(world.is_lead());
  dist::require_single(world, "Training");
  world.size = 4;
  try {
    dist::require_single(world, "Training");
    BOOST_ERROR("no error");
  } catch (const Error& e) {
    BOOST_TEST(static_cast<int>(e.code()) == 69);
    BOOST_TEST(contains(e.what(), "Training"));
    BOOST_TEST(contains(e.what(), "4"));
  }
}

BOOST_AUTO_TEST_CASE(ranks_know_their_places) {
  for (const int n : {2, 4}) {
    std::vector<std::string> expected;
    for (int r = 0; r < n; ++r)
      expected.push_back(std::to_string(r) + " " + std::to_string(n) + " " + std::to_string(r) + " " +
                         std::to_string(n) + " 0 1 mpi");
    const test::Outcome o = ranks(n, {"place"});
    BOOST_TEST(o.code == 0);
    BOOST_TEST((sorted_lines(o.out) == expected), o.out);
  }
}

BOOST_AUTO_TEST_CASE(collectives_of_every_type_agree_with_sums_known_by_heart) {
  for (const int n : {2, 3, 4}) {
    const test::Outcome o = ranks(n, {"collectives"});
    BOOST_TEST(o.code == 0, o.err);
    BOOST_TEST(o.out == "collectives agree\n");
  }
}

BOOST_AUTO_TEST_CASE(texts_of_different_lengths_are_gathered) {
  const test::Outcome o = ranks(3, {"texts"});
  BOOST_TEST(o.out == "[][bbb][cccccc]lead\n[][bbb][cccccc]lead\n[][bbb][cccccc]lead\n");
}

BOOST_AUTO_TEST_CASE(a_rank_that_never_comes_is_named) {
  BOOST_TEST(ranks(3, {"late", "1", "1"}, {{"CIRRUS_TIMEOUT", "30"}}).out == "all came\n");
  const test::Outcome o = ranks(3, {"late", "1", "60"}, {{"CIRRUS_TIMEOUT", "2"}});
  BOOST_TEST(o.code == 70);
  BOOST_TEST(contains(o.err, "has waited for"), o.err);
  BOOST_TEST(contains(o.err, "barrier of all ranks"), o.err);
  BOOST_TEST(contains(o.err, "rank 1 on"), o.err);
  BOOST_TEST(contains(o.err, "is not there: it computes"), o.err);
  BOOST_TEST(contains(o.err, "waits there too"), o.err);
}

BOOST_AUTO_TEST_CASE(errors_of_all_are_told_once_and_of_one_by_that_one) {
  const test::Outcome all = ranks(3, {"fail", "all", "73"});
  BOOST_TEST(all.code == 73);
  BOOST_TEST(all.err.find("told to fail") == all.err.rfind("told to fail"), all.err);
  for (const std::string rank : {"0", "2"}) {
    const test::Outcome one = ranks(3, {"fail", rank, "65"});
    BOOST_TEST(one.code == 65, "rank " << rank << ": " << one.code);
    BOOST_TEST(contains(one.err, "told to fail"), one.err);
    if (rank != "0") BOOST_TEST(contains(one.err, "rank 2 on"), one.err);
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_is_killed_takes_the_others_with_it) {
  for (const char* rank : {"0", "2"}) BOOST_TEST(ranks(3, {"die", rank, "9"}).code != 0);
}

BOOST_AUTO_TEST_CASE(three_hosts_meet_over_the_network) {
  const test::Outcome place = hosts({"2", program_path("world_probe").string(), "place"}, "60");
  if (place.code == 77) {
    BOOST_TEST_MESSAGE("skipped: network namespaces cannot be made here");
    return;
  }
  BOOST_TEST(place.code == 0, place.err);
  // Rank, size, place on its host and on which: hosts are filled one after another.
  const std::vector<std::string> expected{"0 6 0 2 0 3 mpi", "1 6 1 2 0 3 mpi", "2 6 0 2 1 3 mpi",
                                          "3 6 1 2 1 3 mpi", "4 6 0 2 2 3 mpi", "5 6 1 2 2 3 mpi"};
  BOOST_TEST((sorted_lines(place.out) == expected), place.out);
  BOOST_TEST(hosts({"1", program_path("world_probe").string(), "collectives"}, "60").out == "collectives agree\n");
}

BOOST_AUTO_TEST_CASE(a_cut_link_ends_in_a_sentence_not_in_a_hang) {
  const test::Outcome o = hosts({"1", "--cut", "3", "h2", program_path("world_probe").string(), "loop", "300"}, "5");
  if (o.code == 77) {
    BOOST_TEST_MESSAGE("skipped: network namespaces cannot be made here");
    return;
  }
  BOOST_TEST(o.code == 70, o.code);
  BOOST_TEST(contains(o.err, "has waited for"), o.err);
  BOOST_TEST(contains(o.err, "rank 2 on h2"), o.err);
}

BOOST_AUTO_TEST_SUITE_END()
