// Minkowski functionals, one-point statistics and structure functions against closed forms: shapes, Gaussian random
// fields, ramps.
#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "fields.h"
#include "metrics/minkowski.h"
#include "metrics/one_point.h"

using namespace cirrus;
using namespace cirrus::metrics;
using tests::white_noise;

namespace {

/// Distance from the middle of a map [n, n].
at::Tensor radius_map(int64_t n) {
  const at::Tensor x = at::arange(n, at::kDouble) - 0.5 * static_cast<double>(n - 1);
  return at::hypot(x.unsqueeze(1), x.unsqueeze(0));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(minkowski)

BOOST_AUTO_TEST_CASE(a_disc_has_its_area_its_circumference_and_one_component) {
  const int64_t n = 201;
  const MinkowskiFunctionals disc = minkowski_functionals(-radius_map(n), std::array{-30.25, -70.1});
  const double cells = 200.0 * 200, pixels = 201.0 * 201;
  for (const auto& [i, radius] : {std::pair{0, 30.25}, {1, 70.1}}) {
    BOOST_TEST(disc.area[i] * pixels == M_PI * radius * radius, boost::test_tools::tolerance(0.005));
    // Linear interpolation cuts chords: relative 1 / (24 r^2) and less.
    BOOST_TEST(disc.boundary[i] * 4 * cells == 2 * M_PI * radius, boost::test_tools::tolerance(2e-4));
    BOOST_TEST(disc.euler[i] * cells == 1.0, boost::test_tools::tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_CASE(a_ring_has_a_hole_and_two_discs_two_components) {
  const at::Tensor r = radius_map(101);
  const double cells = 100.0 * 100;
  BOOST_CHECK_SMALL(minkowski_functionals(-(r - 30).abs(), std::array{-5.0}).euler[0] * cells, 1e-12);
  const at::Tensor two = at::cat({-r, -r}, 1);
  BOOST_TEST(minkowski_functionals(two, std::array{-20.3}).euler[0] * 201 * 100 == 2.0,
             boost::test_tools::tolerance(1e-12));
  BOOST_TEST(minkowski_functionals(r, std::array{20.3}).euler[0] * cells == -1.0, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(turning_and_negating_the_map_keep_the_boundary) {
  const at::Tensor map = white_noise({40, 60}, 1);
  const MinkowskiFunctionals a = minkowski_functionals(map, std::array{0.3}),
                             b = minkowski_functionals(-map, std::array{-0.3});
  const MinkowskiFunctionals turned = minkowski_functionals(map.t().flip({0}), std::array{0.3});
  BOOST_TEST(a.boundary[0] == b.boundary[0], boost::test_tools::tolerance(1e-12));
  BOOST_TEST(a.euler[0] == -b.euler[0], boost::test_tools::tolerance(1e-12));
  BOOST_TEST(a.area[0] == 1 - b.area[0], boost::test_tools::tolerance(1e-12));
  BOOST_TEST(a.boundary[0] == turned.boundary[0], boost::test_tools::tolerance(1e-12));
  BOOST_TEST(a.euler[0] == turned.euler[0], boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(one_cell_by_hand) {
  const auto of = [](std::vector<double> corners) {
    return minkowski_functionals(at::tensor(corners, at::kDouble).reshape({2, 2}), std::array{0.0});
  };
  // Opposite corners above: two corners are cut off at half an edge, whichever pair; each cut is sqrt(2) / 2 long.
  const MinkowskiFunctionals diagonal = of({1, -1, -1, 1});
  BOOST_TEST(diagonal.boundary[0] == std::sqrt(2.0) / 4, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(diagonal.euler[0] == 0.0);
  BOOST_TEST(diagonal.area[0] == 0.5);
  // One corner above, crossings at 1/4 and 3/4 of its edges.
  const MinkowskiFunctionals corner = of({1, -3, -1.0 / 3, -5});
  BOOST_TEST(corner.boundary[0] == std::hypot(0.25, 0.75) / 4, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(corner.euler[0] == 0.25);
  // The upper row above: a slanted line from 1/4 of the left to 3/4 of the right edge.
  BOOST_TEST(of({1, 3, -3, -1}).boundary[0] == std::hypot(1, 0.5) / 4, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(a_gaussian_field_follows_tomita) {
  // A Gaussian spectrum whose correlation is C(r) = exp(-r^2 / (4 * 5^2)), so that <|grad u|^2> = -laplacian of C at 0
  // = 1 / 5^2.
  const double length = 5, gradient2 = 1 / (length * length);
  const auto amplitude = [&](double k) { return std::exp(-2 * M_PI * M_PI * length * length * k * k); };
  const std::array thresholds = {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0};
  std::array<GaussianMinkowski, 7> mean{};
  constexpr int kFields = 8;
  for (std::uint64_t seed = 0; seed < kFields; ++seed) {
    const MinkowskiFunctionals one =
        minkowski_functionals(tests::gaussian_field(512, 20 + seed, amplitude), thresholds);
    for (size_t i = 0; i < thresholds.size(); ++i) {
      mean[i].area += one.area[i] / kFields;
      mean[i].boundary += one.boundary[i] / kFields;
      mean[i].euler += one.euler[i] / kFields;
    }
  }
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const GaussianMinkowski want = gaussian_minkowski(thresholds[i], 1, gradient2);
    // Tolerances are 4 standard deviations of the mean of 8 such fields (from 60 fields, scaled by correlation length).
    BOOST_CHECK_SMALL(mean[i].area - want.area, 0.02);
    BOOST_CHECK_SMALL(mean[i].boundary - want.boundary, 0.03 * gaussian_minkowski(0, 1, gradient2).boundary);
    BOOST_CHECK_SMALL(mean[i].euler - want.euler, 0.12 * gaussian_minkowski(1, 1, gradient2).euler);
  }
}

BOOST_AUTO_TEST_CASE(a_line_of_pixels_is_no_map) {
  BOOST_CHECK_THROW(minkowski_functionals(white_noise({1, 9}, 2), std::array{0.0}), Error);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(one_point)

BOOST_AUTO_TEST_CASE(gaussian_and_exponential_pixels_have_their_moments) {
  const at::Tensor noise = white_noise({512, 512}, 3);
  const OnePoint gaussian = metrics::one_point(2 * noise + 5);
  BOOST_CHECK_SMALL(gaussian.mean - 5, 0.02);
  BOOST_CHECK_SMALL(gaussian.std - 2, 0.01);
  BOOST_CHECK_SMALL(gaussian.skewness, 0.02);  // standard deviation sqrt(6 / n) = 0.005
  BOOST_CHECK_SMALL(gaussian.kurtosis, 0.04);  // sqrt(24 / n) = 0.01
  BOOST_CHECK_SMALL(gaussian.quantiles[4] - (5 + 2 * 0.99446), 0.02);
  // The sum of two squared normals over 2 is exponential: mean 1, std 1, skewness 2, excess kurtosis 6.
  const OnePoint exponential = metrics::one_point((noise.square() + white_noise({512, 512}, 4).square()) / 2);
  BOOST_CHECK_SMALL(exponential.mean - 1, 0.01);
  BOOST_CHECK_SMALL(exponential.skewness - 2, 0.1);
  BOOST_CHECK_SMALL(exponential.kurtosis - 6, 1.0);
  BOOST_CHECK_SMALL(exponential.quantiles[3] - M_LN2, 0.01);
}

BOOST_AUTO_TEST_CASE(a_ramp_and_white_noise_have_their_structure_functions) {
  const at::Tensor x = at::arange(64, at::kDouble);
  const at::Tensor ramp = 3 * (x.unsqueeze(0) + x.unsqueeze(1));
  const std::array<int64_t, 3> lags = {1, 4, 20};
  for (const double p : {1.0, 2.0, 3.0, 4.0}) {
    const std::vector<double> s = structure_function(ramp, p, lags);
    for (size_t i = 0; i < lags.size(); ++i)
      BOOST_TEST(s[i] == std::pow(3.0 * static_cast<double>(lags[i]), p), boost::test_tools::tolerance(1e-12));
  }
  const at::Tensor noise = white_noise({512, 512}, 5);
  BOOST_CHECK_SMALL(structure_function(noise, 1, lags)[1] - 2 / std::sqrt(M_PI), 0.01);
  BOOST_CHECK_SMALL(structure_function(noise, 2, lags)[2] - 2, 0.03);
  BOOST_CHECK_SMALL(structure_function(noise, 4, lags)[0] - 12, 0.4);
  BOOST_CHECK_THROW(structure_function(ramp, 2, std::array<int64_t, 1>{64}), Error);
  BOOST_CHECK_THROW(structure_function(ramp, 2, std::array<int64_t, 1>{0}), Error);
}

BOOST_AUTO_TEST_SUITE_END()
