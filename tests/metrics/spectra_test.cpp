// Power ratios, correlations, structural similarity, seams and consistency: cases with known answers.
#include "metrics/spectra.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "fields.h"
#include "metrics/consistency.h"
#include "metrics/map.h"
#include "metrics/seams.h"
#include "metrics/ssim.h"
#include "metrics/transform.h"
#include "sky/degrade.h"

using namespace cirrus;
using namespace cirrus::metrics;
using tests::dust_sky;
using tests::white_noise;

BOOST_AUTO_TEST_SUITE(spectra)

BOOST_AUTO_TEST_CASE(twice_the_map_has_four_times_the_power_whatever_its_zero_level) {
  const at::Tensor t = dust_sky(1, 128);
  const RingSums sums = ring_sums(2 * t + 5, t);
  BOOST_TEST(*added_power(power_ratio(sums), 4) == 4.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(*mean_correlation(correlation(sums), 4, 0.75, 1) == 1.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(half_correlation(correlation(sums)) == 0.5);
  BOOST_TEST(*mean_correlation(correlation(ring_sums(-t, t)), 4, 1, 1.5) == -1.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(independent_maps_are_not_correlated) {
  const RingSums sums = ring_sums(white_noise({256, 256}, 1), white_noise({256, 256}, 2));
  // The rings above the Nyquist frequency hold about 530 independent modes under the window: 1/sqrt(530) = 0.043.
  BOOST_CHECK_SMALL(*added_power(power_ratio(sums), 4) - 1, 0.1);
  BOOST_CHECK_SMALL(*mean_correlation(correlation(sums), 4, 1, 1.5), 0.15);
  BOOST_TEST(half_correlation(correlation(sums)) == ring_centre(0));
}

BOOST_AUTO_TEST_CASE(a_wave_lies_in_its_ring) {
  const int64_t n = 160;
  for (const int ring : {3, 17, 37}) {
    const at::Tensor x = at::arange(n, at::kDouble).unsqueeze(0).expand({n, n});
    const RingSums sums = ring_sums((2 * M_PI * ring_centre(ring) * x).cos(), white_noise({n, n}, 3));
    const auto peak = std::max_element(sums.output.begin(), sums.output.end());
    BOOST_TEST(peak - sums.output.begin() == ring);
  }
}

BOOST_AUTO_TEST_CASE(half_correlation_is_where_noise_equals_signal) {
  // Signal plus independent noise of three times its power: r = 1 / sqrt(1 + 3) = 0.5 in every ring, so 2 and 4 times
  // bracket it.
  const at::Tensor t = white_noise({256, 256}, 4), noise = white_noise({256, 256}, 5);
  const auto r = [&](double power) {
    return *mean_correlation(correlation(ring_sums(t + std::sqrt(power) * noise, t)), 2, 0.5, 1);
  };
  BOOST_CHECK_SMALL(r(3) - 0.5, 0.03);
  BOOST_TEST(r(2) > r(3));
}

BOOST_AUTO_TEST_CASE(rings_without_modes_are_left_out) {
  const at::Tensor t = dust_sky(2, 24);
  const std::vector<double> ratio = power_ratio(ring_sums(1.5 * t, t));
  BOOST_TEST(std::isnan(ratio[0]));
  BOOST_TEST(*added_power(ratio, 4) == 2.25, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(!added_power(power_ratio(ring_sums(at::ones({2, 2}, at::kDouble), at::ones({2, 2}, at::kDouble))), 4));
  BOOST_CHECK_THROW(ring_sums(t, t.t().narrow(0, 0, 8)), Error);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(ssim)

BOOST_AUTO_TEST_CASE(one_window_is_the_formula_of_wang) {
  const at::Tensor t = dust_sky(4, 64).narrow(0, 0, 11).narrow(1, 0, 11).contiguous();
  const at::Tensor x = t + 0.1 * white_noise({11, 11}, 6);
  const at::Tensor offset = at::arange(-5, 6, at::kDouble);
  at::Tensor w = (-0.5 * (offset / 1.5).square()).exp();
  w = w.unsqueeze(1) * w.unsqueeze(0);
  w = w / w.sum();
  const auto e = [&](const at::Tensor& v) { return (w * v).sum().item<double>(); };
  const double range = data_range(t), c1 = std::pow(0.01 * range, 2), c2 = std::pow(0.03 * range, 2);
  const double mx = e(x), mt = e(t), vx = e(x * x) - mx * mx, vt = e(t * t) - mt * mt, v = e(x * t) - mx * mt;
  const double want = (2 * mx * mt + c1) * (2 * v + c2) / ((mx * mx + mt * mt + c1) * (vx + vt + c2));
  BOOST_TEST(*metrics::ssim(x, t) == want, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(!metrics::ssim(x.narrow(0, 0, 10), t.narrow(0, 0, 10)));
}

BOOST_AUTO_TEST_CASE(the_range_is_between_percentiles) {
  const at::Tensor ramp = at::arange(1001, at::kDouble).reshape({7, 143});
  BOOST_TEST(data_range(ramp) == 990.0, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(seams)

BOOST_AUTO_TEST_CASE(a_step_between_tiles_shows_and_none_is_seen_without) {
  const at::Tensor bicubic_error = white_noise({256, 256}, 7);
  at::Tensor error = white_noise({256, 256}, 8);
  const double without = metrics::seams(error, bicubic_error, 4)->seam;
  error.narrow(1, 128, 128).add_(3);  // the usual median step is 0.95, so this one is about 3.2 times as large
  const double with = metrics::seams(error, bicubic_error, 4)->seam;
  BOOST_TEST(without < 1.5);
  BOOST_TEST(with > 2.5);
  BOOST_TEST(with == metrics::seams(error.t(), bicubic_error.t(), 4)->seam, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(blocks_of_the_input_show_as_a_grid) {
  const at::Tensor bicubic_error = white_noise({128, 128}, 9);
  const at::Tensor blocks = white_noise({32, 32}, 10).repeat_interleave(4, 0).repeat_interleave(4, 1);
  BOOST_TEST(metrics::seams(blocks + 0.1 * white_noise({128, 128}, 11), bicubic_error, 4)->grid > 4);
  BOOST_CHECK_SMALL(metrics::seams(white_noise({128, 128}, 12), bicubic_error, 4)->grid - 1, 0.1);
}

BOOST_AUTO_TEST_CASE(no_error_has_no_seam_and_small_maps_none_to_find) {
  const at::Tensor noise = white_noise({24, 24}, 13);
  const auto none = metrics::seams(at::zeros({24, 24}, at::kDouble), noise, 4);
  BOOST_TEST(none->seam == 1.0);
  BOOST_TEST(none->grid == 1.0);
  BOOST_TEST(!metrics::seams(noise.narrow(0, 0, 20), noise.narrow(0, 0, 20), 4));
  BOOST_TEST(!metrics::seams(noise, noise, 1));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(consistency)

BOOST_AUTO_TEST_CASE(flux_error_is_the_worst_block) {
  const at::Tensor truth = dust_sky(5, 64);
  const Case question{truth, tests::block_mean(truth, 4), 4, 0, 2.3, {}};
  at::Tensor map = truth.clone();
  const double scale = std::max(std::abs(question.lr[3][2].item<double>()), Transform::of(question.lr).a);
  map.narrow(0, 12, 4).narrow(1, 8, 4).add_(0.5 * scale);
  BOOST_TEST(*metrics::consistency(question, map).flux_error == 0.5, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(!metrics::consistency(question, map).chi2);
}

BOOST_AUTO_TEST_CASE(the_truth_has_a_chi_square_of_one) {
  const at::Tensor truth = dust_sky(6, 256);
  Case question{truth, {}, 4, 9.2, 2.3, 0.02};
  question.lr = sky::Degradation(256, 256, question.kernel(), 4).apply(truth) + 0.02 * white_noise({64, 64}, 14);
  const Consistency agreement = metrics::consistency(question, truth);
  // 54 x 54 pixels are left: the standard deviation of their mean square is sqrt(2) / 54 = 0.026.
  BOOST_CHECK_SMALL(*agreement.chi2 - 1, 0.1);
  BOOST_TEST(!agreement.flux_error);
  BOOST_TEST(*metrics::consistency(question, truth + 0.1).chi2 == *agreement.chi2 + 25,
             boost::test_tools::tolerance(0.05));
  question.noise.reset();
  BOOST_TEST(!metrics::consistency(question, truth).chi2);
}

BOOST_AUTO_TEST_SUITE_END()
