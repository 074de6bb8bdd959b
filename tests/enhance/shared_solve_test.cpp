// A beam solve whose tiles several ranks share: their parts together are the whole, to the bit.
#include <boost/test/unit_test.hpp>

#include "enhance/consistency.h"
#include "metrics/fields.h"

using namespace cirrus;
using namespace cirrus::enhance;

BOOST_AUTO_TEST_SUITE(shared_solve)

BOOST_AUTO_TEST_CASE(parts_of_a_solve_add_up_to_the_whole) {
  constexpr std::int64_t h = 40, w = 100, factor = 2;
  const sky::Degradation degrade(h * factor, w * factor, 2.2, factor);
  const at::Tensor sky = tests::dust_sky(5, 256).narrow(0, 0, h * factor).narrow(1, 0, w * factor);
  const at::Tensor q = degrade.apply(sky) + 0.02 * tests::white_noise({h, w}, 6);
  BeamSolve solve;
  solve.noise = 0.02;
  solve.sigma = at::full({h * factor, w * factor}, 0.3, at::kDouble);
  solve.tile = 40;  // three tiles side by side
  double told = 0;
  solve.progress = [&](double share) { told += share; };
  const at::Tensor start = at::zeros_like(solve.sigma);
  const BeamSolution whole = solve_beam(start, q, degrade, solve);
  BOOST_TEST(told == 1, boost::test_tools::tolerance(1e-12));
  for (const std::int64_t parts : {2, 3, 5}) {
    at::Tensor t = at::zeros_like(start), degraded = at::zeros_like(q), solved_by = at::zeros_like(start);
    told = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      solve.part = part;
      solve.parts = parts;
      const BeamSolution some = solve_beam(start, q, degrade, solve);
      t += some.t;
      degraded += some.degraded;
      solved_by += some.t.ne(0).to(at::kDouble);
    }
    BOOST_TEST(at::equal(t, whole.t), parts);
    BOOST_TEST(at::equal(degraded, whole.degraded), parts);
    BOOST_TEST(solved_by.max().item<double>() == 1);  // no pixel twice
    BOOST_TEST(told == 1, boost::test_tools::tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_CASE(a_map_of_one_tile_is_the_first_ranks) {
  const sky::Degradation degrade(64, 64, 2.2, 2);
  const at::Tensor q = degrade.apply(tests::dust_sky(5, 64));
  BOOST_TEST(beam_solve_tiles(degrade) == 1);
  BOOST_TEST(beam_solve_tiles(sky::Degradation(2 * 304, 2 * 304, 2.2, 2)) == 1);
  BOOST_TEST(beam_solve_tiles(sky::Degradation(2 * 305, 2 * 20, 2.2, 2)) == 2);
  BOOST_TEST(beam_solve_tiles(sky::Degradation(2 * 600, 2 * 300, 2.2, 2)) == 6);
  BeamSolve solve;
  solve.noise = 0.02;
  solve.sigma = at::full({64, 64}, 0.3, at::kDouble);
  solve.parts = 2;
  const at::Tensor start = at::zeros_like(solve.sigma);
  BOOST_TEST(solve_beam(start, q, degrade, solve).t.abs().max().item<double>() > 0);
  solve.part = 1;
  BOOST_TEST(solve_beam(start, q, degrade, solve).t.abs().max().item<double>() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
