// The world a process finds itself in: one, or what the launcher and MPI agree on; disagreement is an error.
#include "dist/world.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "tests/cli/subprocess.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

using Variables = std::map<std::string, std::string>;

test::Outcome probe(Variables set, std::vector<std::string> words = {}) {
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"})
    set.try_emplace(name, "");  // not from this test's own launcher
  return run("world_probe", words, {.environment = set});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(world)

BOOST_AUTO_TEST_CASE(a_program_started_plainly_is_a_world_of_one) {
  const test::Outcome plain = probe({}), by_one = probe({{"PMI_SIZE", "1"}}, {"single"});
  BOOST_TEST(plain.code == 0);
  BOOST_TEST(plain.out == "0 1 none\n");
  BOOST_TEST(by_one.code == 0);
  BOOST_TEST(by_one.out == "0 1 none\n");
}

BOOST_AUTO_TEST_CASE(the_innermost_launcher_counts) {
  // mpiexec -n 1 inside a Slurm step of four tasks.
  BOOST_TEST(probe({{"PMI_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}}).out == "0 1 none\n");
}

BOOST_AUTO_TEST_CASE(a_launcher_that_mpi_does_not_see_is_an_error_not_lonely_ranks) {
  for (const Variables& set : {Variables{{"PMI_SIZE", "2"}}, Variables{{"OMPI_COMM_WORLD_SIZE", "3"}},
                               Variables{{"SLURM_STEP_NUM_TASKS", "8"}}}) {
    const test::Outcome o = probe(set);
    BOOST_TEST(o.code == 69);
    BOOST_TEST(contains(o.err, "The launcher started " + set.begin()->second + " processes"), o.err);
    BOOST_TEST(contains(o.err, "("));  // a remedy follows
    BOOST_TEST(o.out == "");
  }
}

BOOST_AUTO_TEST_CASE(a_launcher_variable_that_is_no_number_is_an_error) {
  for (const char* value : {"two", "-1", "0", "2x", "99999999999999999999"}) {
    const test::Outcome o = probe({{"PMI_SIZE", value}});
    BOOST_TEST(o.code == 69);
    BOOST_TEST(contains(o.err, "PMI_SIZE = '" + std::string(value) + "'"), o.err);
  }
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

BOOST_AUTO_TEST_SUITE_END()
