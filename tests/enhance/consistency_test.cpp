// Agreement of an output with its input: the exact projection of blocks, and the solve under a beam and noise.
#include "enhance/consistency.h"

#include "kernels/block_flux.h"

#include <boost/test/unit_test.hpp>
#include <csignal>

#include "base/errors.h"
#include "base/signals.h"
#include "enhance/wiener_upsample.h"
#include "metrics/fields.h"

using namespace cirrus;
using namespace cirrus::enhance;
using tests::largest;
using tests::white_noise;

namespace {

/// Largest |block mean of sinh(T) - q| over max(|q|, 1): the transform's unit is the map's robust sigma.
double block_error(const at::Tensor& t, const at::Tensor& q, std::int64_t s) {
  return largest((tests::block_mean(t.sinh(), s) - q) / q.abs().clamp_min(1));
}

/// A sky, what a telescope makes of it, and a first guess that is wrong by `error` (correlated) in T.
struct BeamCase {
  at::Tensor truth, guess, q;
  sky::Degradation degrade;
  double noise;
};
BeamCase beam_case(double noise, double error, std::int64_t side = 96) {
  Sampling sampling{4, 9.2, 2.3};
  BeamCase c{{}, {}, {}, sky::Degradation(side, side, sampling.difference_sigma(), 4), noise};
  const at::Tensor sky = tests::dust_sky(11, side);
  const double m = sky.median().item<double>(), a = 1.4826 * (sky - m).abs().median().item<double>();
  c.truth = ((sky - m) / a).asinh();
  c.q = c.degrade.apply(c.truth.sinh()) + noise * white_noise({side / 4, side / 4}, 12);
  const at::Tensor bump = sky::Degradation(side, side, 1.5, 1).apply(white_noise({side, side}, 13));
  c.guess = c.truth + error * bump / bump.std();
  return c;
}

BeamSolve settings(const BeamCase& c, double sigma) {
  BeamSolve s;
  s.noise = c.noise;
  s.sigma = at::full_like(c.guess, sigma);
  return s;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(block_projection)

BOOST_AUTO_TEST_CASE(block_means_are_met_for_every_contrast_and_sign) {
  for (const std::int64_t s : {2, 4, 5}) {
    for (const double spread : {0.0, 0.3, 3.0}) {
      for (const double level : {0.0, 1e-8, 1e-3, 1.0, 1e3, 1e8, -1e-3, -1.0, -1e3, -1e8}) {
        const at::Tensor t = spread * white_noise({6 * s, 7 * s}, 1), q = level * (1 + 0.1 * white_noise({6, 7}, 2));
        const at::Tensor projected = kernels::project_blocks(t, q, s);
        // float64 all along: 1e-13 of the block's mean or of the map's robust sigma.
        BOOST_TEST(block_error(projected, q, s) < 1e-13, "factor " << s << ", spread " << spread << ", level " << level
                                                                   << ": " << block_error(projected, q, s));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(blocks_of_eight_decades_beside_each_other_do_not_disturb_one_another) {
  at::Tensor q = at::tensor({1e8, -1e8, 1e-8, 0.0, 3.0, -3.0}).to(at::kDouble).view({2, 3});
  const at::Tensor t = white_noise({8, 12}, 3);
  const at::Tensor projected = kernels::project_blocks(t, q, 4);
  BOOST_TEST(block_error(projected, q, 4) < 1e-13);
  q[0][0] = 5;
  const at::Tensor other = kernels::project_blocks(t, q, 4);
  BOOST_TEST(other.narrow(1, 4, 8).equal(projected.narrow(1, 4, 8)));
}

BOOST_AUTO_TEST_CASE(a_bright_pixel_in_a_faint_block_keeps_its_place) {
  at::Tensor t = 0.1 * white_noise({4, 4}, 4);
  t[1][2] = 18;  // 3e7 robust sigmas
  for (const double mean : {1e6, 0.5, -0.5}) {
    const at::Tensor q = at::full({1, 1}, mean, at::kDouble);
    const at::Tensor projected = kernels::project_blocks(t, q, 4);
    BOOST_TEST(projected.isfinite().all().item<bool>());
    BOOST_TEST(projected.argmax().item<std::int64_t>() == 6);
    // The sum of 16 pixels of up to |mean| * 16 each, in float64.
    BOOST_TEST(std::abs(projected.sinh().mean().item<double>() - mean) <
               1e-11 * std::max(1.0, projected.sinh().abs().max().item<double>()));
  }
}

BOOST_AUTO_TEST_CASE(it_shifts_each_block_by_one_constant_and_leaves_a_consistent_map_alone) {
  const at::Tensor t = white_noise({12, 8}, 5), q = tests::block_mean(t.sinh(), 4);
  BOOST_TEST(largest(kernels::project_blocks(t, q, 4) - t) < 1e-13);
  const at::Tensor shift = kernels::project_blocks(t, q + 2, 4) - t;
  const at::Tensor by_block = tests::block_mean(shift, 4).repeat_interleave(4, 0).repeat_interleave(4, 1);
  BOOST_TEST(largest(shift - by_block) < 1e-13);
  BOOST_TEST((shift > 0).all().item<bool>());
}

BOOST_AUTO_TEST_CASE(members_are_projected_each_for_itself) {
  const at::Tensor t = white_noise({3, 8, 8}, 6), q = white_noise({2, 2}, 7);
  const at::Tensor together = kernels::project_blocks(t, q, 4);
  for (std::int64_t i = 0; i < 3; ++i) BOOST_TEST(together[i].equal(kernels::project_blocks(t[i], q, 4)));
}

BOOST_AUTO_TEST_CASE(overflowing_states_give_finite_maps) {
  const at::Tensor t = at::full({4, 4}, 900.0, at::kDouble), q = at::ones({1, 1}, at::kDouble);
  const at::Tensor projected = kernels::project_blocks(t, q, 4);
  BOOST_TEST(projected.isfinite().all().item<bool>());
  BOOST_TEST(block_error(projected, q, 4) < 1e-13);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(beam_solve)

BOOST_AUTO_TEST_CASE(chi_square_of_the_truth_is_one) {
  const BeamCase c = beam_case(0.05, 0, 256);
  // 2788 pixels away from the border: standard deviation sqrt(2/2788) = 0.027; five of them.
  BOOST_TEST(std::abs(chi_square(c.truth, c.q, c.degrade, c.noise, {}) - 1) < 0.14);
  BOOST_TEST(
      chi_square(c.truth, c.q, c.degrade, c.noise / 2, {}) == 4 * chi_square(c.truth, c.q, c.degrade, c.noise, {}),
      boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(chi_square_counts_only_pixels_with_weight_and_away_from_borders) {
  BeamCase c = beam_case(0.05, 0);
  const double before = chi_square(c.truth, c.q, c.degrade, c.noise, {});
  at::Tensor weight = at::ones_like(c.q);
  weight[12][12] = 0;
  c.q[12][12] = 1e6;
  c.q[0][0] = 1e6;
  BOOST_TEST(chi_square(c.truth, c.q, c.degrade, c.noise, weight) == before, boost::test_tools::tolerance(0.1));
  BOOST_TEST(chi_square(c.truth, c.q, c.degrade, c.noise, {}) > 1e6);
}

BOOST_AUTO_TEST_CASE(a_wrong_guess_is_brought_within_the_noise) {
  for (const double noise : {0.02, 0.2}) {
    const BeamCase c = beam_case(noise, 0.4);
    const double before = chi_square(c.guess, c.q, c.degrade, noise, {});
    const at::Tensor solved = solve_beam(c.guess, c.q, c.degrade, settings(c, 0.4)).t;
    const double after = chi_square(solved, c.q, c.degrade, noise, {});
    BOOST_TEST_MESSAGE("noise " << noise << ": chi-square " << before << " to " << after);
    BOOST_TEST(before > 1.5);
    BOOST_TEST(after < 1.1);
    BOOST_TEST(after > 0.05);  // the prior keeps it from fitting the noise exactly
    const auto rms = [&](const at::Tensor& t) { return (t - c.truth).square().mean().sqrt().item<double>(); };
    BOOST_TEST(rms(solved) < rms(c.guess));
  }
}

BOOST_AUTO_TEST_CASE(a_map_that_fits_is_left_alone) {
  BeamCase c = beam_case(0.05, 0);
  c.q = c.degrade.apply(c.truth.sinh());
  BOOST_TEST(largest(solve_beam(c.truth, c.q, c.degrade, settings(c, 0.4)).t - c.truth) < 1e-9);
}

BOOST_AUTO_TEST_CASE(no_freedom_no_change) {
  const BeamCase c = beam_case(0.05, 0.4);
  BOOST_TEST(largest(solve_beam(c.guess, c.q, c.degrade, settings(c, 1e-9)).t - c.guess) < 1e-6);
}

BOOST_AUTO_TEST_CASE(pixels_without_weight_do_not_matter) {
  const BeamCase c = beam_case(0.05, 0.3);
  BeamSolve s = settings(c, 0.3);
  s.weight = at::ones_like(c.q);
  s.weight.narrow(0, 8, 4).narrow(1, 8, 4).zero_();
  const at::Tensor once = solve_beam(c.guess, c.q, c.degrade, s).t;
  at::Tensor other = c.q.clone();
  other.narrow(0, 8, 4).narrow(1, 8, 4).fill_(1e5);
  BOOST_TEST(largest(solve_beam(c.guess, other, c.degrade, s).t - once) < 1e-9);
  s.weight.fill_(1);
  BOOST_TEST(largest(solve_beam(c.guess, other, c.degrade, s).t - once) > 0.1);
}

BOOST_AUTO_TEST_CASE(a_bright_source_does_not_make_it_diverge) {
  BeamCase c = beam_case(0.05, 0.3);
  c.truth[40][40] = 12;  // 8e4 robust sigmas
  c.q = c.degrade.apply(c.truth.sinh()) + c.noise * white_noise({24, 24}, 12);
  at::Tensor guess = c.guess.clone();
  guess[40][40] = 11;
  const at::Tensor solved = solve_beam(guess, c.q, c.degrade, settings(c, 0.3)).t;
  BOOST_TEST(solved.isfinite().all().item<bool>());
  BOOST_TEST(chi_square(solved, c.q, c.degrade, c.noise, {}) < 0.1 * chi_square(guess, c.q, c.degrade, c.noise, {}));
}

BOOST_AUTO_TEST_CASE(light_from_beyond_the_border_is_allowed_for) {
  // A map cut from a larger one: near its border the beam carries light that no mirror image of the map explains.
  const BeamCase whole = beam_case(0.02, 0.2, 160);
  BeamCase c = whole;
  const auto cut = [](const at::Tensor& x, std::int64_t side) {
    return x.narrow(0, side / 5, 3 * side / 5).narrow(1, side / 5, 3 * side / 5).contiguous();
  };
  c.q = cut(whole.q, 40);
  c.guess = cut(whole.guess, 160);
  c.degrade = sky::Degradation(96, 96, whole.degrade.sigma(), 4);
  const at::Tensor solved = solve_beam(c.guess, c.q, c.degrade, settings(c, 0.3)).t, truth = cut(whole.truth, 160);
  const auto border_error = [&](const at::Tensor& t) {
    at::Tensor d = (t - truth).square();
    d.narrow(0, 8, 80).narrow(1, 8, 80).zero_();
    return d.sum().item<double>();
  };
  BOOST_TEST(chi_square(solved, c.q, c.degrade, c.noise, {}) < 1.2);
  BOOST_TEST(border_error(solved) < border_error(c.guess));
  // What the solution, light from outside included, leaves of the data is noise up to the border.
  BOOST_TEST(((c.q - solve_beam(c.guess, c.q, c.degrade, settings(c, 0.3)).degraded) / c.noise)
                 .square()
                 .mean()
                 .item<double>() < 1.2);
}

BOOST_AUTO_TEST_CASE(a_deep_map_of_high_contrast_is_fitted) {
  // Sources of 50 to 3000 robust sigmas in a map a hundredth of a sigma deep.
  BeamCase c = beam_case(0.01, 0.5);
  for (std::int64_t i = 0; i < 12; ++i) {
    const std::int64_t y = 12 + 17 * (i % 5), x = 10 + 19 * (i / 3);
    c.truth.narrow(0, y, 3).narrow(1, x, 3).fill_(4.6 + 0.35 * static_cast<double>(i));
    c.guess.narrow(0, y, 3).narrow(1, x, 3).fill_(4.2 + 0.4 * static_cast<double>(i));
  }
  c.q = c.degrade.apply(c.truth.sinh()) + c.noise * white_noise({24, 24}, 12);
  BOOST_TEST(chi_square(c.guess, c.q, c.degrade, c.noise, {}) > 1e4);
  BOOST_TEST(chi_square(solve_beam(c.guess, c.q, c.degrade, settings(c, 0.5)).t, c.q, c.degrade, c.noise, {}) < 5);
}

BOOST_AUTO_TEST_CASE(tiles_agree_with_the_whole_map) {
  const BeamCase c = beam_case(0.05, 0.3, 480);
  BeamSolve s = settings(c, 0.3);
  const at::Tensor whole = solve_beam(c.guess, c.q, c.degrade, s).t;
  s.tile = 40;
  const at::Tensor tiled = solve_beam(c.guess, c.q, c.degrade, s).t, correction = whole - c.guess;
  const auto rms = [](const at::Tensor& x) { return x.square().mean().sqrt().item<double>(); };
  // Both stop within the solve's tolerance, at places that differ a little; no edge of a tile shows.
  BOOST_TEST(rms(tiled - whole) < 0.1 * rms(correction));
  const auto steps = [](const at::Tensor& x) { return x.narrow(1, 1, x.size(1) - 1) - x.narrow(1, 0, x.size(1) - 1); };
  const at::Tensor error = steps(tiled - whole), seams = error.index_select(1, at::tensor({159, 319}, at::kLong));
  BOOST_TEST_MESSAGE("difference " << rms(tiled - whole) << " of corrections of " << rms(correction) << "; steps "
                                   << rms(error) << ", at seams " << rms(seams) << ", of the map "
                                   << rms(steps(whole)));
  BOOST_TEST(rms(seams) < 0.1 * rms(steps(whole)));
  BOOST_TEST(chi_square(tiled, c.q, c.degrade, c.noise, {}) == chi_square(whole, c.q, c.degrade, c.noise, {}),
             boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(it_can_be_interrupted) {
  const BeamCase c = beam_case(0.05, 0.3);
  signals::request_stop(SIGINT);
  BOOST_CHECK_THROW(solve_beam(c.guess, c.q, c.degrade, settings(c, 0.3)).t, Error);
  signals::request_stop(0);
}

BOOST_AUTO_TEST_SUITE_END()
