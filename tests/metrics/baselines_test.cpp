// The classical up-samplings: weights known in closed form, what each reproduces exactly, their edges, and hostile
// inputs.
#include "metrics/baselines.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "fields.h"
#include "metrics/case.h"
#include "metrics/map.h"

using namespace cirrus;
using namespace cirrus::metrics;
using tests::largest;
using tests::white_noise;

namespace {

/// `pixels` edge pixels replicated on each side.
at::Tensor replicate_pad(const at::Tensor& map, int64_t pixels) {
  return at::replication_pad2d(map.unsqueeze(0), {pixels, pixels, pixels, pixels}).squeeze(0);
}

at::Tensor crop(const at::Tensor& map, int64_t pixels) {
  return map.narrow(0, pixels, map.size(0) - 2 * pixels).narrow(1, pixels, map.size(1) - 2 * pixels);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(baselines)

BOOST_AUTO_TEST_CASE(a_constant_map_stays_constant) {
  const at::Tensor lr = at::full({16, 12}, 7.0, at::kDouble);
  const Case question{at::full({64, 48}, 7.0, at::kDouble), lr, 4, 0, 2.3, {}};
  for (const std::string_view name : baseline_names()) {
    const at::Tensor map = baseline(name, question);
    BOOST_TEST(map.size(0) == 64);
    BOOST_TEST(map.size(1) == 48);
    BOOST_TEST(largest(map - 7) < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(cubic_convolution_has_the_weights_of_keys) {
  at::Tensor lr = at::zeros({9, 9}, at::kDouble);
  lr[4].fill_(1);  // output rows lie at +-0.25, 0.75, 1.25, 1.75 of the impulse
  const at::Tensor column = bicubic(lr, 2).select(1, 4);
  const std::vector<double> weights = {-0.0234375, -0.0703125, 0.2265625,  0.8671875,
                                       0.8671875,  0.2265625,  -0.0703125, -0.0234375};
  for (int64_t i = 0; i < 8; ++i) BOOST_CHECK_SMALL(column[5 + i].item<double>() - weights[i], 1e-14);
}

BOOST_AUTO_TEST_CASE(cubic_convolution_is_exact_on_ramps) {
  const auto ramp = [](int64_t rows, int64_t columns, double step, double offset) {
    const at::Tensor y = at::arange(rows, at::kDouble).unsqueeze(1) * step + offset;
    const at::Tensor x = at::arange(columns, at::kDouble).unsqueeze(0) * step + offset;
    return 2 * x - y;
  };
  const at::Tensor up = bicubic(ramp(16, 20, 1, 0), 4);
  BOOST_TEST(largest(crop(up - ramp(64, 80, 0.25, -0.375), 8)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(edges_are_replicated) {
  const at::Tensor lr = white_noise({8, 9}, 1), padded = replicate_pad(lr, 4);
  BOOST_TEST(largest(bicubic(lr, 4) - crop(bicubic(padded, 4), 16)) < 1e-12);
  BOOST_TEST(largest(lanczos3(lr, 4) - crop(lanczos3(padded, 4), 16)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(the_spline_mirrors_at_half_samples) {
  // A map and its mirror image side by side are one longer spline: both halves must be unchanged.
  const at::Tensor lr = white_noise({6, 7}, 2);
  const at::Tensor doubled = at::cat({lr, lr.flip({0})}, 0);
  BOOST_TEST(largest(spline(doubled, 3).narrow(0, 0, 18) - spline(lr, 3)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(interpolants_pass_through_the_samples_at_odd_factors) {
  const at::Tensor lr = white_noise({12, 10}, 3);
  for (const at::Tensor& map : {bicubic(lr, 3), lanczos3(lr, 3), spline(lr, 3)}) {
    const at::Tensor centres = map.slice(0, 1, {}, 3).slice(1, 1, {}, 3);
    BOOST_TEST(largest(centres - lr) < 1e-10);
  }
}

BOOST_AUTO_TEST_CASE(wiener_keeps_the_flux_and_beats_bicubic) {
  const at::Tensor truth = tests::dust_sky(4);
  const at::Tensor lr = tests::block_mean(truth, 4);
  const at::Tensor map = wiener(lr, 4, {.kernel = 0, .beam_hr = 2.3, .noise = 0});
  // Without noise the filter is an inverse up to its regularisation of 1e-4 standard deviations.
  BOOST_TEST(rms(tests::block_mean(map, 4) - lr) < 1e-4 * rms(lr - lr.mean()));
  BOOST_TEST(rms(map - truth) < 0.9 * rms(bicubic(lr, 4) - truth));
}

BOOST_AUTO_TEST_CASE(wiener_smooths_as_the_noise_grows) {
  const at::Tensor lr = white_noise({32, 24}, 5);
  double before = 1e300;
  for (const double noise : {0.01, 0.3, 3.0, 100.0}) {
    const at::Tensor map = wiener(lr, 2, {.kernel = 1, .beam_hr = 2, .noise = noise});
    const double spread = rms(map - map.mean());
    BOOST_TEST(spread < before);
    before = spread;
  }
  BOOST_TEST(before < 0.05);
}

BOOST_AUTO_TEST_CASE(a_single_pixel_and_a_factor_of_one_are_no_special_cases) {
  const at::Tensor pixel = at::full({1, 1}, 3.0, at::kDouble), lr = white_noise({5, 4}, 6);
  BOOST_TEST(largest(bicubic(pixel, 4) - 3) < 1e-12);
  BOOST_TEST(largest(lanczos3(pixel, 4) - 3) < 1e-12);
  BOOST_TEST(largest(spline(pixel, 4) - 3) < 1e-12);
  BOOST_TEST(largest(wiener(pixel, 4, {}) - 3) < 1e-12);
  BOOST_TEST(largest(bicubic(lr, 1) - lr) < 1e-12);
  BOOST_TEST(largest(lanczos3(lr, 1) - lr) < 1e-12);
  BOOST_TEST(largest(spline(lr, 1) - lr) < 1e-12);
}

BOOST_AUTO_TEST_CASE(single_precision_and_strided_maps_are_taken) {
  const at::Tensor lr = white_noise({8, 6}, 7).to(at::kFloat);
  const at::Tensor map = spline(lr.t(), 2);
  BOOST_TEST((map.scalar_type() == at::kDouble));
  BOOST_TEST(largest(map - spline(lr, 2).t()) < 1e-12);
}

BOOST_AUTO_TEST_CASE(wrong_requests_are_refused) {
  const at::Tensor lr = white_noise({4, 4}, 8);
  BOOST_CHECK_THROW(bicubic(lr, 0), Error);
  BOOST_CHECK_THROW(wiener(lr, -1, {}), Error);
  BOOST_CHECK_THROW(bicubic(lr.unsqueeze(0), 2), Error);
  BOOST_CHECK_THROW(bicubic(at::empty({0, 4}, at::kDouble), 2), Error);
  BOOST_CHECK_THROW(baseline("cubic", {lr, lr, 1, 0, 0, {}}), Error);
}

BOOST_AUTO_TEST_SUITE_END()
