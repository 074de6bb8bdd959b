// The band-pass cascade: bands that sum to the field, equal to plain convolutions, with the gain on noise that is
// claimed.
#include "kernels/band_pass.h"

#include "kernels/normal_noise.h"
#include "tests/kernels/devices.h"
#include "tests/kernels/differentiation.h"

namespace {
using namespace cirrus;
using namespace cirrus::test;
}  // namespace

BOOST_AUTO_TEST_SUITE(band_pass)

BOOST_AUTO_TEST_CASE(bands_equal_convolutions_in_double) {
  // Larger and smaller than the blurs, odd, a single row and a single pixel.
  for (const auto& [n, h, w] :
       {std::array<std::int64_t, 3>{2, 40, 33}, {3, 5, 64}, {1, 1, 17}, {1, 1, 1}, {1, 128, 128}}) {
    const at::Tensor x = normals({n, 1, h, w}, 21).to(at::kFloat);
    const at::Tensor exact = kernels::reference::band_pass(x.to(at::kDouble));
    // The weights are float32 in both; sums of 25 x 25 products of weights that sum to 1.
    for (const Place& place : places())
      check_close(kernels::band_pass(x.to(place.device)).to(at::kCPU).to(at::kDouble), exact, 1e-5, 2e-6,
                  "bands of " + std::to_string(h) + " x " + std::to_string(w) + " on " + place.name);
  }
}

BOOST_AUTO_TEST_CASE(bands_sum_to_the_field) {
  const at::Tensor x = 100 * normals({2, 1, 50, 31}, 22).to(at::kFloat);
  check_close(kernels::band_pass(x).sum(1, true).to(at::kDouble), x.to(at::kDouble), 0, 1e-4,
              "sum of bands");  // four roundings of values up to 400
}

BOOST_AUTO_TEST_CASE(a_constant_lies_in_the_last_band_alone) {
  const std::int64_t reach = kernels::band_reach(), size = 4 * reach;
  const at::Tensor inner =
      kernels::band_pass(at::full({1, 1, size, size}, 5.f)).narrow(2, reach, 2 * reach).narrow(3, reach, 2 * reach);
  BOOST_TEST(inner.narrow(1, 0, 3).abs().max().item<double>() < 1e-5);  // weights sum to 1 within float32
  BOOST_TEST(inner.select(1, 3).sub(5).abs().max().item<double>() < 1e-5);
}

BOOST_AUTO_TEST_CASE(blurs_have_the_stated_width_and_reach) {
  for (const double sigma : kernels::kBandSigmas) {
    const std::vector<float> w = kernels::gaussian_weights(sigma);
    const double radius = static_cast<double>(w.size() / 2);
    double sum = 0, variance = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double x = static_cast<double>(i) - radius;
      sum += w[i];
      variance += w[i] * x * x;
    }
    BOOST_TEST(sum == 1, boost::test_tools::tolerance(1e-6));
    // Cut at 3.5 sigma or more, the variance is short by at most 1%; sampling at whole pixels adds less.
    BOOST_TEST(std::sqrt(variance) == sigma, boost::test_tools::tolerance(0.01));
  }
  const std::int64_t reach = kernels::band_reach(), size = 2 * reach + 5, middle = reach + 2;
  at::Tensor impulse = at::zeros({1, 1, size, size});
  impulse[0][0][middle][middle] = 1;
  const at::Tensor response = kernels::band_pass(impulse);
  BOOST_TEST(response[0][3][middle][middle - reach].item<double>() != 0);
  BOOST_TEST(response[0][3][middle][middle - reach - 1].item<double>() == 0);
  BOOST_TEST(response[0][3][middle + reach + 1][middle].item<double>() == 0);
}

BOOST_AUTO_TEST_CASE(white_noise_has_the_stated_gains) {
  at::Tensor noise = kernels::normal_noise({4, 1, 256, 256}, {5, Purpose::bootstrap, {0, 1, 2, 3}, 0, 0, 0});
  const std::int64_t reach = kernels::band_reach();
  const at::Tensor inner =
      kernels::band_pass(noise).narrow(2, reach, 256 - 2 * reach).narrow(3, reach, 256 - 2 * reach);
  const auto gains = kernels::band_noise_gains();
  for (int b = 0; b < kernels::kBands; ++b) {
    // The last band has about 215000 / (4 pi 3.4^2) = 1500 independent values: a standard error of 1.8%.
    BOOST_TEST(inner.select(1, b).square().mean().sqrt().item<double>() == gains[static_cast<std::size_t>(b)],
               boost::test_tools::tolerance(b == 3 ? 0.06 : 0.03) << "band " << b);
  }
  // White noise blurred by a Gaussian of s pixels keeps 1 / (2 s sqrt(pi)).
  BOOST_TEST(gains[3] == 1 / (2 * 3.4 * std::sqrt(M_PI)), boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(samples_do_not_mix_and_threads_do_not_matter) {
  const at::Tensor x = normals({3, 1, 70, 45}, 23).to(at::kFloat);
  const auto with = [&](int n) {
    const Threads threads(n);
    return kernels::band_pass(x);
  };
  const at::Tensor one = with(1);
  BOOST_TEST(at::equal(one, with(2)));
  BOOST_TEST(at::equal(one.narrow(0, 1, 1), kernels::band_pass(x.narrow(0, 1, 1))));
  // A window of a larger buffer.
  const at::Tensor buffer = normals({3, 1, 80, 60}, 24).to(at::kFloat),
                   window = buffer.narrow(2, 4, 70).narrow(3, 9, 45);
  for (const Place& place : places())
    BOOST_TEST(at::equal(kernels::band_pass(buffer.to(place.device).narrow(2, 4, 70).narrow(3, 9, 45)),
                         kernels::band_pass(window.to(place.device).contiguous())));
}

BOOST_AUTO_TEST_CASE(several_channels_are_refused) {
  BOOST_CHECK_THROW(kernels::band_pass(at::zeros({1, 2, 8, 8})), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
