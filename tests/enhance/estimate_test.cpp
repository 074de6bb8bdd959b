// Noise and beam from a map itself, with gaps in it too.
#include "enhance/estimate.h"

#include <boost/test/unit_test.hpp>

#include "tests/enhance/seen_map.h"

using namespace cirrus;
using namespace cirrus::enhance;
using tests::seen_through;
using tests::white_noise;

namespace {

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A frame, a corner, half the map, a hole: where scans end and sources were cut out.
std::vector<at::Tensor> gaps(std::int64_t side) {
  std::vector<at::Tensor> all;
  for (int kind = 0; kind < 5; ++kind) {
    const at::Tensor missing = kind == 0 ? at::ones({side, side}, at::kBool) : at::zeros({side, side}, at::kBool);
    if (kind == 0) missing.narrow(0, 2, side - 4).narrow(1, 2, side - 4).fill_(false);
    if (kind == 1) missing.narrow(0, 0, side / 4).narrow(1, 0, side / 3).fill_(true);
    if (kind == 2) missing.narrow(1, 0, side / 2).fill_(true);
    if (kind == 3) missing.narrow(0, side / 2, 8).narrow(1, side / 2, 8).fill_(true);
    if (kind == 4) missing.logical_or_(at::rand({side, side}) < 0.01);
    all.push_back(missing);
  }
  return all;
}

/// What reading leaves in gaps: something smooth.
at::Tensor filled(const at::Tensor& map, const at::Tensor& missing) {
  return map.masked_fill(missing, map.mean().item());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(estimates)

BOOST_AUTO_TEST_CASE(white_noise_of_a_map_is_found_within_a_fifth) {
  for (const double fwhm : {2.3, 3.0}) {
    for (const double noise : {0.01, 0.1, 0.5}) {
      const at::Tensor clean = seen_through(fwhm, 0, 21), map = seen_through(fwhm, noise, 21);
      const double truth = noise * metrics::Transform::of(clean).a;
      BOOST_TEST(estimate_noise(map) == truth, boost::test_tools::tolerance(0.2));
      BOOST_TEST(estimate_noise(5 * map + 1000) == 5 * estimate_noise(map), boost::test_tools::tolerance(1e-6));
    }
  }
  BOOST_TEST(estimate_noise(at::full({32, 32}, 4.0, at::kDouble)) < 1e-100);
}

BOOST_AUTO_TEST_CASE(gaps_do_not_count) {
  const at::Tensor clean = seen_through(2.3, 0, 21), map = seen_through(2.3, 0.02, 21);
  const double noise = 0.02 * metrics::Transform::of(clean).a;
  int told = 0, kind = 0;
  for (const at::Tensor& missing : gaps(128)) {
    BOOST_TEST(estimate_noise(filled(map, missing), missing) == noise, boost::test_tools::tolerance(0.25));
    const BeamEstimate estimate = estimate_beam(filled(map, missing), missing);
    BOOST_TEST_MESSAGE("gaps " << kind++ << ": " << estimate.reason);
    if (!estimate.fwhm) continue;
    ++told;
    BOOST_TEST(*estimate.fwhm == 2.3, boost::test_tools::tolerance(0.15));
  }
  BOOST_TEST(told >= 4);
  const at::Tensor nothing = at::ones({128, 128}, at::kBool);
  BOOST_TEST(estimate_noise(map, nothing) > 0);
  BOOST_TEST(!estimate_beam(map, nothing).fwhm.has_value());
}

BOOST_AUTO_TEST_CASE(faint_noise_is_not_drowned_by_the_sky) {
  for (const std::uint64_t seed : {21, 22, 23}) {
    const at::Tensor clean = seen_through(2.3, 0, seed);
    const double noise = metrics::Transform::of(clean).a / 200;
    BOOST_TEST(estimate_noise(seen_through(2.3, 1.0 / 200, seed)) < 2 * noise);
  }
}

BOOST_AUTO_TEST_CASE(thin_and_tiny_maps_have_noise_too) {
  for (const auto& [h, w] : {std::pair{4, 4000}, std::pair{4000, 4}, std::pair{1, 4000}, std::pair{2, 2000}})
    BOOST_TEST(estimate_noise(white_noise({h, w}, 7)) == 1.0, boost::test_tools::tolerance(0.1));
}

BOOST_AUTO_TEST_CASE(a_beam_is_found_within_fifteen_per_cent_or_not_told) {
  int told = 0;
  for (const double fwhm : {2.0, 2.5, 3.0, 4.0}) {
    for (const std::uint64_t seed : {31, 32, 33}) {
      const BeamEstimate estimate = estimate_beam(seen_through(fwhm, 0.02, seed));
      BOOST_TEST_MESSAGE("beam of " << fwhm << " pixels: " << estimate.reason);
      BOOST_TEST(!estimate.reason.empty());
      if (!estimate.fwhm) continue;
      ++told;
      BOOST_TEST(*estimate.fwhm == fwhm, boost::test_tools::tolerance(0.15));
    }
  }
  BOOST_TEST(told >= 9);  // of 12
}

BOOST_AUTO_TEST_CASE(no_beam_is_seen_where_there_is_none) {
  const at::Tensor sharp = tests::block_mean(tests::dust_sky(41, 512), 4);
  BOOST_TEST(!estimate_beam(sharp).fwhm.has_value());
  BOOST_TEST(!estimate_beam(white_noise({128, 128}, 42)).fwhm.has_value());
  BOOST_TEST(!estimate_beam(at::full({64, 64}, 1.0, at::kDouble)).fwhm.has_value());
  const BeamEstimate small = estimate_beam(white_noise({16, 200}, 43));
  BOOST_TEST(!small.fwhm.has_value());
  BOOST_TEST(says(small.reason, "too small"));
}

BOOST_AUTO_TEST_SUITE_END()
