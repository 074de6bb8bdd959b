// Missing pixels: filling, averaging, repeating the mask.
#include <cmath>
#include <limits>
#include <numeric>

#include "fits/mask.h"
#include "tests/fits/scratch.h"

using namespace cirrus;
using namespace cirrus::fits;
using cirrus::test::exit_code_of;

namespace {
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
}  // namespace

BOOST_AUTO_TEST_SUITE(missing_pixels)

BOOST_AUTO_TEST_CASE(filling_touches_only_invalid_pixels_and_stays_in_range) {
  constexpr std::int64_t width = 37, height = 23;
  std::vector<double> pixels(width * height);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = -50.0 + std::sin(0.37 * static_cast<double>(i));
  const std::vector<double> whole = pixels;
  std::int64_t holes = 0;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const bool border = x < 12 || y > 19, hole = (x - 25) * (x - 25) + (y - 9) * (y - 9) < 30;
      if (border || hole)
        pixels[static_cast<std::size_t>(y * width + x)] = (x % 2 == 0) ? kNaN : (y % 2 == 0 ? kInf : -kInf), ++holes;
    }
  }
  const auto mask = invalid_mask(pixels);
  BOOST_TEST(fill_invalid(pixels, width, height) == holes);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (mask[i] == 0) {
      BOOST_TEST(pixels[i] == whole[i]);
    } else {
      BOOST_TEST((pixels[i] >= -51.0 && pixels[i] <= -49.0));  // an average of valid pixels: never 0
    }
  }
  BOOST_TEST(fill_invalid(pixels, width, height) == 0);
}

BOOST_AUTO_TEST_CASE(a_constant_map_is_filled_with_its_constant) {
  for (const auto& [width, height] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 9}, {8, 1}, {5, 6}, {64, 64}}) {
    std::vector<double> pixels(static_cast<std::size_t>(width * height), kNaN);
    pixels.back() = 7.25;
    fill_invalid(pixels, width, height);
    for (const double value : pixels) BOOST_TEST(value == 7.25);
  }
}

BOOST_AUTO_TEST_CASE(an_empty_map_is_bad_data) {
  std::vector<double> pixels(12, kNaN);
  BOOST_TEST(exit_code_of([&] { fill_invalid(pixels, 4, 3); }) == ExitCode::bad_data);
}

BOOST_AUTO_TEST_CASE(block_means_and_sums_leave_missing_pixels_out) {
  // 5 x 4 pixels, factor 2: the fifth column is left out.
  const std::vector<double> pixels = {1, 2, kNaN, kNaN, 100, 3, 4, 6,    kNaN, 100,
                                      1, 1, kNaN, kNaN, 100, 1, 1, kInf, kNaN, 100};
  const std::vector<double> mean = block_mean(pixels, 5, 4, 2), sum = block_sum(pixels, 5, 4, 2);
  BOOST_REQUIRE(mean.size() == 4u);
  BOOST_TEST(mean[0] == 2.5);
  BOOST_TEST(mean[1] == 6.0);
  BOOST_TEST(mean[2] == 1.0);
  BOOST_TEST(std::isnan(mean[3]));
  BOOST_TEST(sum[0] == 10.0);
  BOOST_TEST(sum[1] == 24.0);  // one pixel stands for its block
  BOOST_TEST(std::isnan(sum[3]));
}

BOOST_AUTO_TEST_CASE(sums_are_kept_over_the_map) {
  std::vector<double> pixels(60 * 36);
  std::iota(pixels.begin(), pixels.end(), -1000.0);  // a negative background keeps its sum, too
  for (const int s : {2, 3, 4}) {
    const auto sum = block_sum(pixels, 60, 36, s);
    BOOST_TEST(std::accumulate(sum.begin(), sum.end(), 0.0) == std::accumulate(pixels.begin(), pixels.end(), 0.0),
               boost::test_tools::tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_CASE(masks_grow_with_the_map) {
  const std::vector<std::uint8_t> mask = {0, 1, 1, 0, 0, 1};  // 3 x 2
  const auto large = upscale_mask(mask, 3, 2, 2);
  const std::vector<std::uint8_t> expected = {0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1};
  BOOST_TEST(large == expected, boost::test_tools::per_element());
  std::vector<double> pixels(6, 1.0);
  apply_mask(pixels, mask);
  BOOST_TEST((invalid_mask(pixels) == mask));
}

BOOST_AUTO_TEST_SUITE_END()
