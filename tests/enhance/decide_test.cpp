// What is decided before a map is enhanced, and on what grounds: beam and noise from the map itself, then each branch
// of the decisions with the reason it gives, then whether the map is like those of the training.
#include "enhance/decide.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "enhance/distribution.h"
#include "enhance/estimate.h"
#include "metrics/fields.h"
#include "sky/beam.h"
#include "sky/degrade.h"
#include "tests/enhance/seen_map.h"
#include "tests/enhance/tiny_model.h"

using namespace cirrus;
using namespace cirrus::enhance;
using tests::largest;
using tests::seen_through;
using tests::white_noise;

namespace {

/// A map of 10" pixels.
fits::Image image_of(const at::Tensor& map, const std::string& cards = "") {
  fits::Image image;
  const at::Tensor m = map.to(at::kDouble).contiguous();
  image.height = m.size(0);
  image.width = m.size(1);
  image.pixels.assign(m.data_ptr<double>(), m.data_ptr<double>() + m.numel());
  image.axes = {image.width, image.height};
  image.path = "map.fits";
  image.header = fits::Header::from_lines(
      "BUNIT   = 'MJy/sr'\nCTYPE1  = 'GLON-TAN'\nCTYPE2  = 'GLAT-TAN'\nCRPIX1  = 1.0\nCRPIX2  = 1.0\nCRVAL1  = "
      "10.0\nCRVAL2  = 5.0\n"
      "CDELT1  = -0.00277777777777778\nCDELT2  = 0.00277777777777778\n" +
      cards);
  return image;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
bool warns(const Decisions& d, const std::string& part) {
  return std::any_of(d.warnings.begin(), d.warnings.end(), [&](const std::string& w) { return says(w, part); });
}

std::string refusal(const fits::Image& image, const ObservationChoice& choice, ExitCode code) {
  try {
    (void)decide(image, choice);
  } catch (const Error& e) {
    BOOST_TEST(static_cast<int>(e.code()) == static_cast<int>(code), e.what());
    return e.what();
  }
  BOOST_ERROR("it was not refused");
  return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(beam_decisions)

BOOST_AUTO_TEST_CASE(a_beam_given_by_flag_wins) {
  ObservationChoice choice;
  choice.beam = "30arcsec";
  const Decisions d = decide(image_of(seen_through(2.3, 0.05, 1, 32), "BMAJ    = 0.02\nBMIN    = 0.02\n"), choice);
  BOOST_TEST(!d.block_mode);
  BOOST_TEST(d.beam_source == "flag");
  BOOST_TEST(says(d.beam_reason, "30"));
  BOOST_TEST(d.observation.sampling.beam_in == 12.0, boost::test_tools::tolerance(1e-9));  // 3 input pixels
  BOOST_TEST(d.beam_in_arcsec == 30.0);
  BOOST_TEST(d.beam_out_arcsec == 2.3 * 2.5, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(none_means_an_exact_block_mean) {
  ObservationChoice choice;
  choice.beam = "none";
  choice.noise = "0.1";
  const Decisions d = decide(image_of(seen_through(2.3, 0.05, 1, 32), "BMAJ    = 0.02\n"), choice);
  BOOST_TEST(d.block_mode);
  BOOST_TEST(d.beam_source == "none");
  BOOST_TEST(d.observation.noise == 0.0);
  BOOST_TEST(warns(d, "--noise has no effect"));
}

BOOST_AUTO_TEST_CASE(the_headers_beam_comes_before_the_maps_own) {
  const Decisions d =
      decide(image_of(seen_through(2.3, 0.05, 1, 64), "BMAJ    = 0.01\nBMIN    = 0.008\nBPA     = 30.0\n"), {});
  BOOST_TEST(d.beam_source == "header");
  BOOST_TEST(says(d.beam_reason, "BMAJ"));
  BOOST_TEST(d.beam_in_arcsec == std::sqrt(36 * 28.8), boost::test_tools::tolerance(1e-9));
  BOOST_TEST(warns(d, "elliptical"));
}

BOOST_AUTO_TEST_CASE(cards_that_make_no_sense_are_told_not_passed_over) {
  const at::Tensor map = seen_through(2.5, 0.02, 31);
  for (const char* beam : {"0.0", "-0.01", "'wide'", "NaN"}) {
    const std::string what = refusal(image_of(map, std::string("BMAJ    = ") + beam + "\n"), {}, ExitCode::bad_data);
    BOOST_TEST(says(what, std::string("BMAJ = ") + beam), what);
    ObservationChoice choice;
    choice.beam = "none";
    BOOST_TEST(decide(image_of(map, std::string("BMAJ    = ") + beam + "\n"), choice).block_mode);
  }
  for (const char* noise : {"0.0", "-0.01", "'loud'", "NaN"}) {
    const Decisions d = decide(image_of(map, std::string("BMAJ    = 0.00694\nNOISE   = ") + noise + "\n"), {});
    BOOST_TEST(warns(d, std::string("NOISE = ") + noise));
    BOOST_TEST(warns(d, "ESTIMATED from the map: sigma"));
  }
  const Decisions told = decide(image_of(map, "BMAJ    = 0.00694\nNOISE   = 0.02\n"), {});
  BOOST_TEST(!warns(told, "NOISE"));
  BOOST_TEST(!warns(told, "ESTIMATED"));
}

BOOST_AUTO_TEST_CASE(a_hot_pixel_is_told_and_does_not_set_the_scale) {
  const at::Tensor map = seen_through(2.5, 0.02, 31, 64);
  const metrics::Transform before = transform_of(map);
  for (const double value : {1e4, 1e6, 1e9}) {
    const at::Tensor hot = map.clone();
    hot[20][30] = value * before.a;
    BOOST_TEST(transform_of(hot).a == before.a, boost::test_tools::tolerance(0.01));
    ObservationChoice choice;
    choice.beam = "none";
    BOOST_TEST(warns(decide(image_of(hot), choice), "(31, 21)"));
    choice.beam = "none";
    BOOST_TEST(!warns(decide(image_of(map), choice), "outshine"));
  }
}

BOOST_AUTO_TEST_CASE(values_that_32_bit_floats_cannot_hold_are_refused) {
  BOOST_TEST(says(refusal(image_of(1e-42 * seen_through(2.5, 0.02, 31, 32)), {}, ExitCode::bad_data), "too small"));
  ObservationChoice choice;
  choice.beam = "none";
  BOOST_TEST(!decide(image_of(1e-30 * seen_through(2.5, 0.02, 31, 32)), choice).missing.any().item<bool>());
  BOOST_TEST(!decide(image_of(at::zeros({8, 8})), choice).missing.any().item<bool>());
}

BOOST_AUTO_TEST_CASE(without_a_header_the_map_is_asked_and_the_user_told_loudly) {
  const Decisions d = decide(image_of(seen_through(2.5, 0.02, 31)), {});
  BOOST_TEST_REQUIRE(d.beam_source == "estimated");
  BOOST_TEST(d.beam_in_arcsec == 25.0, boost::test_tools::tolerance(0.15));
  BOOST_TEST(warns(d, "ESTIMATED"));
  BOOST_TEST(warns(d, "--beam"));
  const Decisions sharp = decide(image_of(tests::block_mean(tests::dust_sky(41, 256), 4)), {});
  BOOST_TEST(sharp.beam_source == "none");
  BOOST_TEST(sharp.block_mode);
  BOOST_TEST(warns(sharp, "no roll-off"));
}

BOOST_AUTO_TEST_CASE(a_beam_that_is_too_small_is_refused_from_a_flag_and_ignored_in_a_header) {
  const at::Tensor map = seen_through(2.3, 0.05, 1, 32);
  ObservationChoice choice;
  choice.factor = 2;
  choice.beam = "12arcsec";  // 2.4 output pixels; 1.05 * 2.3 are needed
  BOOST_TEST(says(refusal(image_of(map), choice, ExitCode::bad_data), "not wider"));
  choice.beam = "auto";
  const Decisions d = decide(image_of(map, "BMAJ    = 0.00333333\n"), choice);
  BOOST_TEST(d.block_mode);
  BOOST_TEST(d.beam_source == "none");
  BOOST_TEST(warns(d, "not wider"));
  choice.beam_out = "11.9arcsec";
  BOOST_TEST(says(refusal(image_of(map, "BMAJ    = 0.00333333\n"), choice, ExitCode::bad_data), "--beam-out"));
}

BOOST_AUTO_TEST_CASE(angles_need_coordinates_and_must_be_positive) {
  fits::Image image = image_of(seen_through(2.3, 0.05, 1, 32));
  ObservationChoice choice;
  for (const char* bad : {"0", "-3arcsec", "wide", "3 parsec"}) {
    choice.beam = bad;
    refusal(image, choice, ExitCode::usage);
  }
  image.header = fits::Header::from_lines("BUNIT   = 'K'\n");
  choice.beam = "20arcsec";
  BOOST_TEST(says(refusal(image, choice, ExitCode::bad_data), "--beam none"));
  choice.beam = "none";
  choice.beam_out = "20arcsec";
  refusal(image, choice, ExitCode::bad_data);
  choice.beam_out = "";
  const Decisions d = decide(image, choice);
  BOOST_TEST(d.beam_out_arcsec == 0.0);
}

BOOST_AUTO_TEST_CASE(the_outputs_beam_can_be_chosen_where_the_inputs_is_known) {
  const at::Tensor map = seen_through(2.3, 0.05, 1, 32);
  ObservationChoice choice;
  choice.beam = "25arcsec";
  choice.beam_out = "7.5arcsec";
  const Decisions d = decide(image_of(map), choice);
  BOOST_TEST(d.observation.sampling.beam_out == 3.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(d.beam_factor == 1.0);
  choice.beam = "none";
  refusal(image_of(map), choice, ExitCode::usage);
}

BOOST_AUTO_TEST_CASE(planes_of_a_cube_share_what_was_decided_once) {
  ObservationChoice choice;
  choice.beam_pixels = 2.5;
  const Decisions d = decide(image_of(white_noise({32, 32}, 3)), choice);
  BOOST_TEST(d.observation.sampling.beam_in == 10.0);
  BOOST_TEST(d.beam_in_arcsec == 25.0, boost::test_tools::tolerance(1e-9));
  choice.beam_pixels = 0;
  BOOST_TEST(decide(image_of(white_noise({32, 32}, 3)), choice).block_mode);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(other_decisions)

BOOST_AUTO_TEST_CASE(noise_comes_from_flag_header_or_map) {
  const at::Tensor map = seen_through(2.3, 0.05, 1, 64);
  ObservationChoice choice;
  choice.beam = "23arcsec";
  const Decisions own = decide(image_of(map), choice);
  BOOST_TEST(says(own.noise_source, "estimated"));
  BOOST_TEST(own.noise == estimate_noise(map), boost::test_tools::tolerance(1e-9));
  const Decisions header = decide(image_of(map, "NOISE   = 0.03\n"), choice);
  BOOST_TEST(says(header.noise_source, "NOISE"));
  BOOST_TEST(header.noise == 0.03);
  choice.noise = "0.04";
  const Decisions flag = decide(image_of(map, "NOISE   = 0.03\n"), choice);
  BOOST_TEST(flag.noise_source == "flag");
  BOOST_TEST(flag.observation.noise == 0.04);
  for (const char* bad : {"0", "-1", "loud", "1e", "nan", "inf", ""}) {
    choice.noise = bad;
    BOOST_TEST(says(refusal(image_of(map), choice, ExitCode::usage), "positive number"));
  }
}

BOOST_AUTO_TEST_CASE(no_map_is_better_known_than_its_numbers) {
  ObservationChoice choice;
  choice.beam = "23arcsec";
  choice.noise = "1e-300";
  const at::Tensor map = seen_through(2.3, 0.05, 1, 32);
  BOOST_TEST(decide(image_of(map), choice).noise >= 1e-6 * map.std(false).item<double>());
  BOOST_TEST(decide(image_of(map + 1e6), choice).noise >= 0.09);
  choice.noise = "auto";
  BOOST_TEST(decide(image_of(at::zeros({8, 8}, at::kDouble)), choice).observation.noise > 0);
  BOOST_TEST(decide(image_of(at::full({8, 8}, -2.0, at::kDouble)), choice).observation.noise > 0);
}

BOOST_AUTO_TEST_CASE(per_pixel_units_are_shared_out_and_per_beam_units_follow_the_beam) {
  const at::Tensor map = seen_through(2.3, 0.05, 1, 32);
  ObservationChoice choice;
  choice.beam = "25arcsec";
  choice.noise = "0.5";
  fits::Image image = image_of(map);
  image.header.set("BUNIT", std::string("Jy/pixel"));
  const Decisions pixel = decide(image, choice);
  BOOST_TEST(pixel.unit.divides());
  BOOST_TEST(largest(16 * pixel.observation.lr - map) < 1e-12);
  BOOST_TEST(pixel.observation.noise == 0.5 / 16);
  BOOST_TEST(pixel.noise == 0.5);

  image = image_of(map, "BMAJ    = 0.01\nBMIN    = 0.005\n");
  image.header.set("BUNIT", std::string("Jy/beam"));
  BOOST_TEST(decide(image, choice).beam_factor == 1.0);
  choice.beam_out = "7.5arcsec";
  const Decisions beam = decide(image, choice);
  // The unit's beam is the header's, 36" x 18", not the 25" that the map is said to be seen through.
  BOOST_TEST(beam.beam_factor == 7.5 * 7.5 / (36.0 * 18.0), boost::test_tools::tolerance(1e-9));
  BOOST_TEST(largest(beam.observation.lr - beam.beam_factor * map) < 1e-12);
  image = image_of(map);
  image.header.set("BUNIT", std::string("Jy/beam"));
  refusal(image, choice, ExitCode::bad_data);  // no beam to convert from
  choice.unit_type = "brightness";
  BOOST_TEST(decide(image, choice).beam_factor == 1.0);
}

BOOST_AUTO_TEST_CASE(missing_pixels_are_filled_and_remembered) {
  at::Tensor map = seen_through(2.3, 0.05, 1, 32).clone();
  map.narrow(0, 3, 5).narrow(1, 10, 4).fill_(NAN);
  map[20][20] = INFINITY;
  ObservationChoice choice;
  choice.beam = "none";
  const Decisions d = decide(image_of(map), choice);
  BOOST_TEST(d.observation.lr.isfinite().all().item<bool>());
  BOOST_TEST(d.missing.equal(map.isfinite().logical_not()));
  BOOST_TEST(largest((d.observation.lr - map).masked_fill(d.missing, 0)) == 0.0);
}

BOOST_AUTO_TEST_CASE(maps_that_cannot_be_enhanced_are_refused) {
  ObservationChoice choice;
  choice.beam = "none";
  BOOST_TEST(says(refusal(image_of(at::full({8, 8}, NAN, at::kDouble)), choice, ExitCode::bad_data), "no pixel"));
  BOOST_TEST(says(refusal(image_of(at::ones({3, 8}, at::kDouble)), choice, ExitCode::bad_data), "8 x 3"));
  BOOST_TEST(says(refusal(image_of(at::ones({8, 3}, at::kDouble)), choice, ExitCode::bad_data), "at least 4"));
  fits::Image image = image_of(at::ones({8, 8}, at::kDouble));
  image.header.set("BUNIT", std::string("mag/arcsec^2"));
  BOOST_TEST(says(refusal(image, choice, ExitCode::bad_data), "mag/arcsec^2"));
  choice.unit_type = "brightness";
  BOOST_CHECK_NO_THROW(decide(image, choice));
}

BOOST_AUTO_TEST_CASE(pixels_that_are_not_square_are_told) {
  fits::Image image = image_of(seen_through(2.3, 0.05, 1, 32));
  image.header.set("CDELT2", 0.004);
  ObservationChoice choice;
  choice.beam = "none";
  BOOST_TEST(warns(decide(image, choice), "not square"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(distribution)

BOOST_AUTO_TEST_CASE(a_map_like_the_training_ones_is_not_flagged) {
  const Model model = test::tiny_model();
  ObservationChoice choice;
  choice.beam = "23arcsec";
  const Decisions d = decide(image_of(seen_through(2.3, 0.05, 1, 64)), choice);
  const Ood verdict = check_distribution(d, model);
  BOOST_TEST(!verdict.flag);
  BOOST_TEST(verdict.score > 0);
  BOOST_TEST(verdict.score <= 1);
  BOOST_TEST(verdict.reason.empty());
}

BOOST_AUTO_TEST_CASE(each_property_out_of_range_is_flagged_by_name) {
  const Model model = test::tiny_model();
  ObservationChoice choice;
  choice.beam = "23arcsec";
  const at::Tensor map = seen_through(2.3, 0.05, 1, 64);
  const auto flagged = [&](const at::Tensor& m, const ObservationChoice& c, const std::string& part) {
    const Ood verdict = check_distribution(decide(image_of(m), c), model);
    BOOST_TEST(verdict.flag, part);
    BOOST_TEST(verdict.score > 1);
    BOOST_TEST(says(verdict.reason, part), verdict.reason);
  };
  at::Tensor bright = map.clone();
  bright[5][5] = 1e4 * metrics::Transform::of(map).a;
  flagged(bright, choice, "brightest pixel");
  bright[5][5] = 1e9;  // so bright that the transform gives up the robust sigma
  flagged(bright, choice, "brightest pixel");
  at::Tensor empty = at::zeros({32, 32}, at::kDouble);  // nothing but one source
  empty[5][5] = 1;
  flagged(empty, choice, "brightest pixel");
  ObservationChoice wide = choice, noisy = choice, out = choice;
  wide.beam = "60arcsec";
  flagged(map, wide, "input's beam");
  noisy.noise = "1000";
  flagged(map, noisy, "signal-to-noise");
  out.beam_out = "10arcsec";
  flagged(map, out, "output's beam");
}

BOOST_AUTO_TEST_SUITE_END()
