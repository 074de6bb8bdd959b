// The base map: mirrored borders, the Wiener filter, and that what the network sees does not depend on a map's unit or
// zero level.
#include <boost/test/unit_test.hpp>

#include "enhance/mirror.h"
#include "enhance/observation.h"
#include "metrics/baselines.h"
#include "metrics/fields.h"
#include "sky/degrade.h"

using namespace cirrus;
using namespace cirrus::enhance;
using tests::largest;

namespace {

/// A map as a telescope would deliver it: beam and noise, or an exact block mean.
Observation observed(std::int64_t factor, double beam_lr_pixels, double noise, std::uint64_t seed = 3,
                     std::int64_t side = 256) {
  const at::Tensor truth = tests::dust_sky(seed, side);
  Observation o;
  o.sampling.factor = factor;
  o.sampling.beam_in = beam_lr_pixels * static_cast<double>(factor);
  o.lr = sky::Degradation(side, side, o.sampling.difference_sigma(), factor).apply(truth);
  o.noise = noise;
  if (noise > 0) o.lr = o.lr + noise * tests::white_noise({side / factor, side / factor}, seed + 100);
  return o;
}

ResidualScale some_scale() {
  ResidualScale scale;
  scale.c = {-0.3, -0.4, 0.2, 0.3, -0.1, -0.2, 0.1};
  return scale;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mirror)

BOOST_AUTO_TEST_CASE(padding_repeats_the_border_pixel_and_goes_back) {
  const at::Tensor row = at::tensor({1.0, 2.0, 3.0}).view({1, 3});
  const at::Tensor padded = mirror_pad(row, 0, 0, 4, 5);
  BOOST_TEST(padded.equal(at::tensor({3.0, 3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 1.0, 2.0}).view({1, 12})));
  BOOST_TEST(mirror_pad(row.t(), 1, 1, 0, 0).equal(at::tensor({1.0, 1.0, 2.0, 3.0, 3.0}).view({5, 1})));
  BOOST_TEST(mirror_pad(row, 0, 0, 0, 0).equal(row));
}

BOOST_AUTO_TEST_CASE(all_leading_axes_are_kept) {
  const at::Tensor maps = at::arange(24, at::kFloat).view({2, 3, 4});
  const at::Tensor padded = mirror_pad(maps, 2, 1, 1, 3);
  BOOST_TEST(padded.sizes().vec() == (std::vector<std::int64_t>{2, 6, 8}), boost::test_tools::per_element());
  BOOST_TEST(padded[1].equal(mirror_pad(maps[1], 2, 1, 1, 3)));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(wiener_base_map)

BOOST_AUTO_TEST_CASE(each_phase_of_the_filter_sums_to_one_so_that_a_constant_stays) {
  for (const std::int64_t factor : {2, 4}) {
    for (const double beam : {0.0, 2.3}) {
      const at::Tensor filter = wiener_filter(1e4, {factor, beam * static_cast<double>(factor), 2.3});
      BOOST_TEST_REQUIRE(filter.size(0) == factor * factor);
      BOOST_TEST(filter.size(2) == 2 * kWienerReach + 1);
      BOOST_TEST(largest(filter.to(at::kDouble).sum(at::IntArrayRef{1, 2, 3}) - 1) < 1e-5);  // 1089 float32 taps
      const at::Tensor constant = wiener_upsample(at::full({7, 9}, 5.0, at::kFloat), filter, factor);
      BOOST_TEST(constant.size(0) == 7 * factor);
      BOOST_TEST(constant.size(1) == 9 * factor);
      BOOST_TEST(largest(constant - 5) < 2e-5);
    }
  }
}

BOOST_AUTO_TEST_CASE(phases_are_mirror_images_of_each_other) {
  // Sub-pixel (i, j) of a block sees the map as its mirror image (s-1-i, s-1-j) sees the map turned by half a circle.
  const at::Tensor filter = wiener_filter(1e3, {4, 9.2, 2.3});
  for (std::int64_t phase = 0; phase < 16; ++phase)
    BOOST_TEST(largest(filter[phase] - filter[15 - phase].flip({1, 2})) < 1e-7);
  BOOST_TEST(largest(filter[0] - filter[15]) > 0.01);
}

BOOST_AUTO_TEST_CASE(without_noise_the_block_mean_of_the_base_map_is_the_map) {
  const Observation o = observed(4, 0, 0);
  const metrics::Transform t = metrics::Transform::of(o.lr);
  const double ratio = fit_prior_to_noise(o.lr, 1e-4 * o.lr.std().item<double>(), o.sampling);
  const at::Tensor base = wiener_upsample(((o.lr - t.m) / t.a).to(at::kFloat), wiener_filter(ratio, o.sampling), 4);
  const at::Tensor error = tests::block_mean(base.to(at::kDouble), 4) * t.a + t.m - o.lr;
  // The filter is cut at 16 pixels and noise of 1e-4 is assumed: a few parts in a thousand of the map's spread remain.
  BOOST_TEST(error.square().mean().sqrt().item<double>() < 5e-3 * o.lr.std().item<double>());
}

BOOST_AUTO_TEST_CASE(inside_a_map_it_equals_the_uncut_filter_of_the_baselines) {
  // metrics::wiener was written apart, on the whole mirrored map. Beam and noise make the filter short; what the cut at
  // 16 pixels and the amplitude's fit on another window leave is below a hundredth of the map's spread.
  for (const double beam : {0.0, 2.5}) {
    const double noise = 0.02;
    const Observation o = observed(4, beam, noise);
    const metrics::Transform t = metrics::Transform::of(o.lr);
    const at::Tensor mine = wiener_upsample(((o.lr - t.m) / t.a).to(at::kFloat),
                                            wiener_filter(fit_prior_to_noise(o.lr, noise, o.sampling), o.sampling), 4)
                                    .to(at::kDouble) *
                                t.a +
                            t.m;
    const at::Tensor theirs = metrics::wiener(o.lr, 4, {o.sampling.difference_sigma(), 2.3, noise, 2.9});
    const at::Tensor difference = (mine - theirs).narrow(0, 72, 112).narrow(1, 72, 112);
    BOOST_TEST(difference.square().mean().sqrt().item<double>() < 0.01 * o.lr.std().item<double>());
  }
}

BOOST_AUTO_TEST_CASE(a_pixel_moves_the_base_map_only_within_the_filters_reach) {
  const at::Tensor filter = wiener_filter(1e4, {4, 0, 2.3});
  at::Tensor map = at::zeros({64, 64}, at::kFloat);
  map[32][32] = 1;
  const at::Tensor up = wiener_upsample(map, filter, 4);
  const std::int64_t first = (32 - kWienerReach) * 4, length = (2 * kWienerReach + 1) * 4;
  at::Tensor outside = up.clone();
  outside.narrow(0, first, length).narrow(1, first, length).zero_();
  BOOST_TEST(largest(outside) == 0.0);
  BOOST_TEST(largest(up) > 0.5);
}

BOOST_AUTO_TEST_CASE(the_fitted_signal_to_noise_follows_the_map) {
  const Observation o = observed(4, 2.3, 0.05);
  const double once = fit_prior_to_noise(o.lr, 0.05, o.sampling);
  BOOST_TEST(fit_prior_to_noise(3 * o.lr, 0.15, o.sampling) == once, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(fit_prior_to_noise(o.lr + 100, 0.05, o.sampling) == once, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(fit_prior_to_noise(o.lr, 0.1, o.sampling) == once / 4, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(prepared_observation)

BOOST_AUTO_TEST_CASE(unit_and_zero_level_of_a_map_change_nothing_the_network_sees) {
  for (const double beam : {0.0, 2.3}) {
    const Observation o = observed(4, beam, beam > 0 ? 0.03 : 0);
    const Prepared p = prepare(o, some_scale());
    // From W m-2 Hz-1 sr-1 (1e-20 of an MJy/sr) to cm-2: no unit is special.
    for (const auto& [gain, offset] : {std::pair{7.0, 0.0}, {1e-28, 0.0}, {1e22, 0.0}, {1.0, -3.0}, {2.5, 40.0}}) {
      Observation changed = o;
      changed.lr = gain * (o.lr + offset);
      changed.noise = gain * o.noise;
      const Prepared q = prepare(changed, some_scale());
      const double tolerance = 2e-5;  // float32 rounding, divided by the transform's width
      BOOST_TEST(largest(q.base - p.base) < tolerance,
                 "gain " << gain << ", offset " << offset << ": " << largest(q.base - p.base));
      BOOST_TEST(largest(q.scale / p.scale - 1) < 1e-3);
      BOOST_TEST(largest(q.scalars - p.scalars) < 1e-5);
      BOOST_TEST(largest(q.maps - p.maps) < 1e-2);  // the detail over its scale, where both are small
    }
  }
}

BOOST_AUTO_TEST_CASE(the_scalars_are_what_they_are_called) {
  Observation o = observed(4, 2.5, 0.01);
  o.sampling.beam_out = 2.6;
  const Prepared p = prepare(o, some_scale());
  const double snr = metrics::Transform::of(o.lr).a / 0.01;
  BOOST_TEST(p.scalars[0].item<double>() == std::log10(snr) - 2, boost::test_tools::tolerance(1e-5));
  BOOST_TEST(p.scalars[1].item<double>() == 1.5, boost::test_tools::tolerance(1e-5));
  BOOST_TEST(p.scalars[2].item<double>() == 0.3, boost::test_tools::tolerance(1e-5));
  BOOST_TEST(p.scalars[3].item<double>() == 0.0);
  const Prepared block = prepare(observed(4, 0, 0), some_scale());
  BOOST_TEST(block.scalars[0].item<double>() == 2.0);
  BOOST_TEST(block.scalars[1].item<double>() == -1.0);
}

BOOST_AUTO_TEST_CASE(the_residual_scale_multiplies_the_local_activity) {
  const Observation o = observed(2, 2.3, 0.02);
  ResidualScale zero;
  const Prepared plain = prepare(o, zero);
  BOOST_TEST(largest(plain.scale / (2 * plain.activity) - 1) < 1e-6);
  ResidualScale twice;
  twice.c[0] = std::log(2.0);
  BOOST_TEST(largest(prepare(o, twice).scale / plain.scale - 2) < 1e-5);
}

BOOST_AUTO_TEST_CASE(maps_without_contrast_stay_finite) {
  for (const double level : {0.0, 5.0, -1e-28, 1e22}) {
    Observation o;
    o.lr = at::full({8, 12}, level, at::kDouble);
    const Prepared p = prepare(o, some_scale());
    for (const at::Tensor& map : {p.base, p.scale, p.maps, p.scalars})
      BOOST_TEST(map.isfinite().all().item<bool>(), "level " << level);
    BOOST_TEST((p.scale > 0).all().item<bool>());
    BOOST_TEST(largest(p.base) < 1e-6);
  }
}

BOOST_AUTO_TEST_SUITE_END()
