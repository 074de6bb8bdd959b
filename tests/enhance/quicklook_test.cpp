// Pictures: limits and stretches against astropy 5 and numpy, colours, orientation, missing pixels, layout.
#include "enhance/quicklook.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <opencv2/imgcodecs.hpp>

#include "base/errors.h"

using namespace cirrus::enhance;

namespace {

cv::Mat drawn(const std::vector<Panel>& panels, const QuicklookOptions& options) {
  const std::string png = draw_panels(panels, options);
  return cv::imdecode(cv::Mat(1, static_cast<int>(png.size()), CV_8U, const_cast<char*>(png.data())),
                      cv::IMREAD_UNCHANGED);
}

/// The middle of pixel (x, y), y counted upwards, of a map of n x n pixels in the first panel.
cv::Vec3b pixel(const cv::Mat& picture, const QuicklookOptions& options, int n, int x, int y) {
  const int zoom = static_cast<int>(options.side) / n;
  return picture.at<cv::Vec3b>(26 + zoom * (n - 1 - y) + zoom / 2, 10 + zoom * x + zoom / 2);
}

int distance(const cv::Vec3b& a, const cv::Vec3b& b) {
  int sum = 0;
  for (int i = 0; i < 3; ++i) sum += std::abs(int{a[i]} - int{b[i]});
  return sum;
}

std::vector<float> spiky_values() {
  std::vector<float> values;
  for (int i = 0; i < 5000; ++i) {
    const double spike = i % 7 == 0 ? (i * 31) % 101 : 0;
    values.push_back(i % 50 == 0 ? NAN : static_cast<float>(std::sin(i * 0.37) * std::exp((i % 97) / 40.0) + spike));
  }
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(quicklook_values)

BOOST_AUTO_TEST_CASE(limits_are_those_of_numpy_and_astropy) {
  const auto near = [](const Limits& limits, double low, double high, double tolerance) {
    BOOST_TEST(std::abs(limits.low - low) < tolerance, limits.low);
    BOOST_TEST(std::abs(limits.high - high) < tolerance, limits.high);
  };
  near(percentile_limits(spiky_values()), -9.80058184, 97.1533533, 1e-5);
  // astropy fits in single precision here.
  near(zscale_limits(spiky_values()), -10.9120483, 26.2388173, 1e-4);
  std::vector<float> squares;
  for (int i = 0; i < 300; ++i) squares.push_back(static_cast<float>(i * i));
  near(zscale_limits(squares), 0, 89401, 1e-3);
}

BOOST_AUTO_TEST_CASE(few_constant_and_missing_values_have_limits_too) {
  const std::vector<float> one = {3}, constant(10, 3.0f), none(5, NAN), infinite = {1, INFINITY, -INFINITY, 2};
  BOOST_TEST((zscale_limits(one).low == 3 && zscale_limits(one).high == 3));
  BOOST_TEST((zscale_limits(constant).low == 3 && zscale_limits(constant).high == 3));
  BOOST_TEST((std::isnan(zscale_limits(none).low) && std::isnan(percentile_limits(none).high)));
  BOOST_TEST((percentile_limits(infinite).low >= 1 && percentile_limits(infinite).high <= 2));
}

BOOST_AUTO_TEST_CASE(stretches_are_those_of_astropy) {
  const Limits unit{0, 1};
  const double places[] = {0, 0.01, 0.1, 0.5, 0.9, 1};
  const double asinh[] = {0.000000000, 0.033297750, 0.293965326, 0.771269642, 0.965052978, 1.000000000};
  const double log[] = {0.000000000, 0.347080675, 0.668010468, 0.899815712, 0.984765775, 1.000000000};
  for (std::size_t i = 0; i < 6; ++i) {
    BOOST_TEST(std::abs(stretched(places[i], unit, "asinh") - asinh[i]) < 1e-8);
    BOOST_TEST(std::abs(stretched(places[i], unit, "log") - log[i]) < 1e-8);
    BOOST_TEST(stretched(places[i], unit, "linear") == places[i]);
  }
}

BOOST_AUTO_TEST_CASE(the_colour_bar_inverts_the_stretch) {
  const Limits limits{-3, 12};
  for (const char* stretch : kStretches) {
    for (const double place : {0.0, 0.2, 0.5, 1.0}) {
      BOOST_TEST(stretched(unstretched(place, limits, stretch), limits, stretch) == place,
                 boost::test_tools::tolerance(1e-12));
    }
    BOOST_TEST(stretched(-100, limits, stretch) == 0.0);
    BOOST_TEST(stretched(100, limits, stretch) == 1.0);
    BOOST_TEST(stretched(7, {7, 7}, stretch) == 0.5);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(quicklook_pictures)

BOOST_AUTO_TEST_CASE(row_1_is_at_the_bottom_and_column_1_on_the_left) {
  const std::vector<float> map = {0, 1, 2, 3};  // row 1: 0 1, row 2: 2 3
  const QuicklookOptions options{.stretch = "linear", .cmap = "gray", .unit = "K", .side = 64};
  const cv::Mat picture = drawn({{"map", map, 2, 2}}, options);
  const auto gray = [&](int x, int y) { return int{pixel(picture, options, 2, x, y)[0]}; };
  BOOST_TEST((gray(0, 0) < gray(1, 0) && gray(1, 0) < gray(0, 1) && gray(0, 1) < gray(1, 1)));
  BOOST_TEST(gray(0, 0) == 0);
  BOOST_TEST(gray(1, 1) == 255);
}

BOOST_AUTO_TEST_CASE(missing_pixels_have_a_colour_of_their_own_in_every_map) {
  // 31 values over the whole range and one missing: the distance to each is clear to the eye.
  std::vector<float> map;
  for (int i = 0; i < 64; ++i) map.push_back(static_cast<float>(i));
  map[20] = NAN;
  map[21] = INFINITY;
  for (const char* cmap : kColorMaps) {
    const QuicklookOptions options{.stretch = "linear", .cmap = cmap, .unit = "", .side = 256};
    const cv::Mat picture = drawn({{"map", map, 8, 8}}, options);
    const cv::Vec3b missing = pixel(picture, options, 8, 4, 2);
    BOOST_TEST(distance(missing, pixel(picture, options, 8, 5, 2)) == 0);
    for (int i = 0; i < 64; ++i) {
      if (i == 20 || i == 21) continue;
      BOOST_TEST(distance(missing, pixel(picture, options, 8, i % 8, i / 8)) > 60, cmap << " at " << i);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_constant_map_is_mid_grey_and_an_empty_one_is_missing) {
  const QuicklookOptions options{.stretch = "asinh", .cmap = "gray", .unit = "", .side = 64};
  const std::vector<float> constant(16, 5.0f), empty(16, NAN);
  const cv::Vec3b grey = pixel(drawn({{"c", constant, 4, 4}}, options), options, 4, 1, 1);
  BOOST_TEST(distance(grey, {127, 127, 127}) <= 3);
  const cv::Vec3b missing = pixel(drawn({{"e", empty, 4, 4}}, options), options, 4, 1, 1);
  BOOST_TEST(distance(missing, {missing[0], missing[0], missing[0]}) > 60);
}

BOOST_AUTO_TEST_CASE(panels_share_one_range_unless_they_have_their_own) {
  const std::vector<float> low = {0, 1, 0, 1}, high = {0, 10, 0, 10};
  const QuicklookOptions options{.stretch = "linear", .cmap = "gray", .unit = "", .side = 64};
  const auto brightest_of_first = [&](bool own) {
    return int{pixel(drawn({{"a", low, 2, 2, own}, {"b", high, 2, 2}}, options), options, 2, 1, 0)[0]};
  };
  BOOST_TEST(brightest_of_first(false) < 40);
  BOOST_TEST(brightest_of_first(true) == 255);
}

BOOST_AUTO_TEST_CASE(large_maps_are_averaged_around_missing_pixels) {
  std::vector<float> map(64 * 64, 1.0f);
  for (std::size_t i = 0; i < map.size(); i += 2) map[i] = NAN;  // every other column missing
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (i / 64 >= 32) map[i] *= 2;
  }
  const QuicklookOptions options{.stretch = "linear", .cmap = "gray", .unit = "", .side = 16};
  const cv::Mat picture = drawn({{"", map, 64, 64}}, options);
  BOOST_TEST(int{pixel(picture, options, 16, 3, 2)[0]} == 0);
  BOOST_TEST(int{pixel(picture, options, 16, 3, 14)[0]} == 255);
}

BOOST_AUTO_TEST_CASE(sixteen_bits_resolve_more_than_eight) {
  std::vector<float> ramp;
  for (int i = 0; i < 1024; ++i) ramp.push_back(static_cast<float>(i));
  QuicklookOptions options{.stretch = "linear", .cmap = "gray", .unit = "", .side = 1024};
  options.sixteen_bit = true;
  const cv::Mat picture = drawn({{"", ramp, 1024, 1}}, options);
  BOOST_TEST(picture.depth() == CV_16U);
  int steps = 0;
  for (int x = 11; x < 10 + 1024; ++x)
    steps += picture.at<cv::Vec3w>(26, x)[0] != picture.at<cv::Vec3w>(26, x - 1)[0] ? 1 : 0;
  BOOST_TEST(steps > 1000);
}

BOOST_AUTO_TEST_CASE(cubehelix_and_viridis_have_their_published_ends) {
  // matplotlib: viridis 0 is (68, 1, 84), its end (253, 231, 37); cubehelix runs from black to white.
  const std::vector<float> ends = {0, 1};
  QuicklookOptions options{.stretch = "linear", .cmap = "viridis", .unit = "", .side = 64};
  const cv::Mat viridis = drawn({{"", ends, 2, 1}}, options);
  BOOST_TEST(distance(viridis.at<cv::Vec3b>(30, 15), {84, 1, 68}) <= 6);
  BOOST_TEST(distance(viridis.at<cv::Vec3b>(30, 60), {37, 231, 253}) <= 6);
  options.cmap = "cubehelix";
  const cv::Mat helix = drawn({{"", ends, 2, 1}}, options);
  BOOST_TEST(distance(helix.at<cv::Vec3b>(30, 15), {0, 0, 0}) == 0);
  BOOST_TEST(distance(helix.at<cv::Vec3b>(30, 60), {255, 255, 255}) == 0);
}

BOOST_AUTO_TEST_CASE(wrong_requests_are_errors) {
  const std::vector<float> map(4, 1.0f);
  BOOST_CHECK_THROW(draw_panels({{"", map, 3, 2}}, {}), cirrus::Error);
  QuicklookOptions options;
  options.cmap = "jet";
  BOOST_CHECK_THROW(draw_panels({{"", map, 2, 2}}, options), cirrus::Error);
  options = {};
  options.stretch = "sqrt";
  BOOST_CHECK_THROW(draw_panels({{"", map, 2, 2}}, options), cirrus::Error);
}

BOOST_AUTO_TEST_SUITE_END()
