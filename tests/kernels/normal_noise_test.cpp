// Addressed noise: the same pixel gets the same number whatever window is filled, and the numbers are standard normal.
#include "kernels/normal_noise.h"

#include <cmath>

#include "tests/kernels/devices.h"
#include "tests/kernels/differentiation.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

kernels::NoiseWindow window(std::vector<std::uint64_t> items, std::int64_t y0 = 0, std::int64_t x0 = 0,
                            std::uint32_t step = 0) {
  return {0x1234567890ABCDEF, Purpose::sampler_noise, std::move(items), step, y0, x0};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(normal_noise)

BOOST_AUTO_TEST_CASE(noise_equals_the_reference_in_double) {
  for (const auto& [y0, x0] :
       {std::pair<std::int64_t, std::int64_t>{0, 0}, {7, 3}, {123456, 4000001}, {1, 2147483640}}) {
    at::Tensor exact = at::empty({2, 1, 37, 1021});
    kernels::reference::fill_normal(exact, window({5, 1ull << 40}, y0, x0, 9));
    // 1e-5: the angle has 24 bits (3.7e-7 of a turn's 2 pi, times a radius up to 6.7) and sine, cosine and logarithm
    // are good to 1e-7. Where the radius is below 0.01 the uniform number lies within 5e-5 of 1, where float32 has
    // steps of 2^-24: the radius, the root of twice that, is then right to sqrt(2^-23) = 3.5e-4 only. One pair in
    // 20000.
    for (const Place& place : places()) {
      const at::Tensor fast =
          kernels::normal_noise(exact.sizes(), window({5, 1ull << 40}, y0, x0, 9), place.device).to(at::kCPU);
      const at::Tensor error = (fast - exact).abs();
      BOOST_TEST(error.masked_select(exact.abs() > 0.01).max().item<double>() < 1e-5, place.name);
      BOOST_TEST(error.max().item<double>() < 3.5e-4, place.name);
      BOOST_TEST((error > 1e-5).to(at::kDouble).mean().item<double>() < 2e-4, place.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(any_window_of_a_field_equals_the_field) {
  for (const Place& place : places()) {
    const at::Tensor whole = kernels::normal_noise({2, 1, 40, 700}, window({3, 8}), place.device);
    for (const auto& [y, x, h, w] : {std::array<std::int64_t, 4>{0, 0, 40, 700},
                                     {1, 1, 3, 5},
                                     {17, 255, 20, 258},
                                     {39, 699, 1, 1},
                                     {8, 2, 9, 1},
                                     {5, 257, 2, 300}}) {
      const at::Tensor part = kernels::normal_noise({2, 1, h, w}, window({3, 8}, y, x), place.device);
      BOOST_TEST(at::equal(part, whole.narrow(2, y, h).narrow(3, x, w)),
                 "window at " << y << ", " << x << " of " << h << " x " << w << " on " << place.name);
      const at::Tensor alone = kernels::normal_noise({1, 1, h, w}, window({8}, y, x), place.device);
      BOOST_TEST(at::equal(alone, part.narrow(0, 1, 1)));
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_and_layout_do_not_matter) {
  const auto with = [](int n) {
    const Threads threads(n);
    return kernels::normal_noise({3, 1, 100, 333}, window({1, 2, 3}));
  };
  const at::Tensor one = with(1);
  BOOST_TEST(at::equal(one, with(2)));
  for (const Place& place : places()) {
    const at::TensorOptions there(place.device);
    at::Tensor strided = at::zeros({3, 1, 333, 100}, there.dtype(at::kFloat)).transpose(2, 3);
    at::Tensor wide = at::zeros({3, 1, 100, 333}, there.dtype(at::kDouble));
    kernels::fill_normal(strided, window({1, 2, 3}));
    kernels::fill_normal(wide, window({1, 2, 3}));
    // Made on the host and copied, whatever the device.
    BOOST_TEST(at::equal(strided.to(at::kCPU), one), place.name);
    BOOST_TEST(at::equal(wide.to(at::kCPU).to(at::kFloat), one), place.name);
  }
}

BOOST_AUTO_TEST_CASE(moments_are_those_of_the_normal_distribution) {
  const at::Tensor x = kernels::normal_noise({4, 1, 512, 512}, window({0, 1, 2, 3})).to(at::kDouble);
  const double n = static_cast<double>(x.numel());  // 1048576
  const auto moment = [&](int k) { return x.pow(k).mean().item<double>(); };
  // Standard errors of the moments: 1, sqrt(2), sqrt(15), sqrt(96) over sqrt(n); five of them.
  BOOST_TEST(std::abs(moment(1)) < 5 * 1.0 / std::sqrt(n));
  BOOST_TEST(std::abs(moment(2) - 1) < 5 * std::sqrt(2 / n));
  BOOST_TEST(std::abs(moment(3)) < 5 * std::sqrt(15 / n));
  BOOST_TEST(std::abs(moment(4) - 3) < 5 * std::sqrt(96 / n));
  // Tails: P(|x| > 3) = 0.0026998.
  BOOST_TEST(std::abs((x.abs() > 3).to(at::kDouble).mean().item<double>() - 0.0026998) < 5 * std::sqrt(0.0027 / n));
  // Neighbours in a row (lanes of a block), in a column, and between the two numbers of a pair.
  const auto correlation = [&](const at::Tensor& a, const at::Tensor& b) {
    return std::abs((a * b).mean().item<double>());
  };
  BOOST_TEST(correlation(x.narrow(3, 0, 511), x.narrow(3, 1, 511)) < 5 / std::sqrt(n));
  BOOST_TEST(correlation(x.narrow(2, 0, 511), x.narrow(2, 1, 511)) < 5 / std::sqrt(n));
  BOOST_TEST(correlation(x.narrow(3, 0, 508).square() - 1, x.narrow(3, 4, 508).square() - 1) < 10 / std::sqrt(n));
}

BOOST_AUTO_TEST_CASE(seeds_purposes_members_and_steps_are_independent) {
  const kernels::NoiseWindow base = window({0});
  std::vector<kernels::NoiseWindow> others(6, base);
  others[0].seed += 1;
  others[1].seed += 1ull << 32;
  others[2].purpose = Purpose::training_noise;
  others[3].items = {1};
  others[4].items = {1ull << 32};
  others[5].step = 1;
  const at::Tensor x = kernels::normal_noise({1, 1, 256, 256}, base);
  for (const kernels::NoiseWindow& other : others) {
    const at::Tensor y = kernels::normal_noise({1, 1, 256, 256}, other);
    BOOST_TEST(std::abs((x * y).mean().item<double>()) < 5.0 / 256);
    BOOST_TEST((x == y).sum().item<std::int64_t>() < 20);  // float32 values meet by chance, not more
  }
}

BOOST_AUTO_TEST_CASE(ten_million_draws_are_finite_and_not_too_large) {
  double largest = 0;
  for (std::uint32_t step = 0; step < 10; ++step) {
    const at::Tensor x = kernels::normal_noise({1, 1, 1024, 1024}, window({77}, 0, 0, step));
    BOOST_TEST(x.isfinite().all().item<bool>());
    largest = std::max(largest, x.abs().max().item<double>());
  }
  // The largest of 10^7 lies near 5.3; 32 bits allow sqrt(2 ln 2^33) = 6.76.
  BOOST_TEST(largest > 4.6);
  BOOST_TEST(largest < 6.77);
}

BOOST_AUTO_TEST_CASE(one_item_for_each_sample_is_required) {
  at::Tensor x = at::empty({2, 1, 4, 4});
  BOOST_CHECK_THROW(kernels::fill_normal(x, window({1})), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
