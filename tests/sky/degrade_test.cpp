// The degradation operator against scipy's gaussian_filter and block means, its adjoint, its invariants, and hostile
// input.
#include "sky/degrade.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <boost/test/unit_test.hpp>

#include "sky/beam.h"
#include "tests/base/exit_code_of.h"

namespace {

using namespace cirrus;
using namespace cirrus::sky;
using cirrus::test::exit_code_of;

/// x[i, j] = sin(3 i + 1) + cos(5 j) + i j / 10, as the golden numbers below were made from.
at::Tensor fixture() {
  const at::Tensor i = at::arange(12, at::kDouble).unsqueeze(1), j = at::arange(8, at::kDouble).unsqueeze(0);
  return at::sin(i * 3 + 1) + at::cos(j * 5) + i * j * 0.1;
}

double largest(const at::Tensor& t) { return t.abs().max().item<double>(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(degradation)

BOOST_AUTO_TEST_CASE(agrees_with_scipy) {
  // scipy.ndimage.gaussian_filter(x, sigma, mode="reflect", truncate=6), then x.reshape(h/s, s, w/s, s).mean((1, 3)).
  // At sigma 5 the kernel (31 pixels to each side) is reflected several times in 12 x 8 pixels.
  const auto golden = [](std::vector<double> values, std::int64_t rows) {
    return at::tensor(values, at::kDouble).reshape({rows, -1});
  };
  const at::Tensor x = fixture();
  const at::Tensor small = golden({0.4769272821482689, 1.024303987681776, 1.0155705100615735, 2.918474968870602,
                                   1.7373062620445916, 4.995738474129142},
                                  3);
  BOOST_TEST(largest(Degradation(12, 8, 1.3, 4).apply(x) - small) < 1e-14);
  const at::Tensor wide = golden({1.225580779936466, 1.2991751923676804, 1.4033617679029438, 1.4771093135524749,
                                  1.382024814979692, 1.4687685698393835, 1.5915511222036094, 1.6784480102816177,
                                  1.6553792522913455, 1.764885076661122, 1.9198580537170102, 2.0295170113051033},
                                 3);
  BOOST_TEST(largest(Degradation(12, 8, 5, 2).apply(x).slice(0, 0, 3) - wide) < 1e-14);
  const at::Tensor unbinned =
      golden({1.3295207965391551, 0.7166810513033497, -0.019398782921982688, 0.057211221734060375, 0.8632391331474586,
              1.2774531951178472, 0.737517407681572, -0.0031708540265166785},
             1);
  BOOST_TEST(largest(Degradation(12, 8, 0.7, 1).apply(x).slice(0, 0, 1) - unbinned) < 1e-14);
}

BOOST_AUTO_TEST_CASE(gaps_are_weighted_out_as_in_scipy) {
  // gaussian_filter(where(valid, x, 0)) / gaussian_filter(valid), both block-averaged; the first pixel keeps 0.226 of
  // its weight.
  at::Tensor x = fixture(), valid = at::ones({12, 8}, at::kBool);
  valid[5][3] = false;
  valid.slice(0, 0, 4).slice(1, 0, 4).fill_(false);
  const at::Tensor expected = at::tensor({1.1382764533967171, 1.182946811694684, 1.1528653271260219, 3.015903378612058,
                                          1.7386644479145117, 4.998165199799905},
                                         at::kDouble)
                                  .reshape({3, 2});
  x.masked_fill_(valid.logical_not(), std::nan(""));
  const Degradation d(12, 8, 1.3, 4);
  BOOST_TEST(largest(d.apply_masked(x, valid, 0.1) - expected) < 1e-14);
  const at::Tensor half = d.apply_masked(x, valid);
  BOOST_TEST(std::isnan(half[0][0].item<double>()));
  BOOST_TEST(half.isnan().sum().item<std::int64_t>() == 1);
  BOOST_TEST(largest(Degradation(12, 8, 1.3, 4, Binning::sum).apply_masked(x, valid, 0.1) - 16 * expected) < 1e-12);
}

BOOST_AUTO_TEST_CASE(single_precision_agrees_with_double_to_rounding) {
  const Degradation d(96, 64, 2.7, 4);
  const at::Tensor x = at::rand({3, 96, 64}, at::kDouble);
  BOOST_TEST(largest(d.apply(x.to(at::kFloat)).to(at::kDouble) - d.apply(x)) < 5e-7);
  BOOST_TEST(largest(d.adjoint(d.apply(x).to(at::kFloat)).to(at::kDouble) - d.adjoint(d.apply(x))) < 5e-7);
}

BOOST_AUTO_TEST_CASE(adjoint_is_the_transpose) {
  for (const double sigma : {0.0, 0.6, 3.9, 21.0})
    for (const std::int64_t factor : {1, 2, 4, 8}) {
      const Degradation d(40, 64, sigma, factor);
      const at::Tensor x = at::randn({2, 40, 64}, at::kDouble),
                       y = at::randn({2, 40 / factor, 64 / factor}, at::kDouble);
      const double left = (d.apply(x) * y).sum().item<double>(), right = (x * d.adjoint(y)).sum().item<double>();
      BOOST_TEST(std::abs(left - right) < 1e-12 * std::max(1.0, (d.apply(x).abs() * y.abs()).sum().item<double>()));
    }
}

BOOST_AUTO_TEST_CASE(constants_and_the_mean_are_conserved) {
  const Degradation mean(64, 48, 3.3, 4), sum(64, 48, 3.3, 4, Binning::sum);
  const at::Tensor x = at::rand({64, 48}, at::kDouble);
  BOOST_TEST(largest(mean.apply(at::full({64, 48}, 7.25, at::kDouble)) - 7.25) < 1e-13);
  BOOST_TEST(largest(sum.apply(x) - 16 * mean.apply(x)) < 1e-12);
  BOOST_TEST(std::abs(sum.apply(x).sum().item<double>() - x.sum().item<double>()) < 1e-9);  // reflection keeps the flux
}

BOOST_AUTO_TEST_CASE(without_a_kernel_it_is_the_block_mean) {
  const at::Tensor x = at::rand({2, 3, 20, 16}, at::kDouble);
  BOOST_TEST(largest(Degradation(20, 16, 0, 4).apply(x) - at::avg_pool2d(x, {4, 4})) < 1e-15);
  BOOST_TEST(at::equal(Degradation(20, 16, 0, 1).apply(x), x));
}

BOOST_AUTO_TEST_CASE(batches_and_strided_maps_and_threads_change_nothing) {
  const Degradation d(128, 96, 1.9, 2);
  const at::Tensor x = at::rand({2, 128, 96}, at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = d.apply(x);
  at::set_num_threads(2);
  BOOST_TEST(at::equal(one, d.apply(x)));
  at::set_num_threads(threads);
  BOOST_TEST(at::equal(one[1], d.apply(x[1])));
  BOOST_TEST(at::equal(d.apply(x.permute({1, 2, 0}).contiguous().permute({2, 0, 1})), one));
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_fit_are_bad_data) {
  BOOST_CHECK(exit_code_of([] { Degradation(30, 32, 1, 4); }) == ExitCode::bad_data);
  BOOST_CHECK(exit_code_of([] { Degradation(32, 0, 1, 4); }) == ExitCode::bad_data);
  BOOST_CHECK(exit_code_of([] { Degradation(32, 32, 1, 0); }) == ExitCode::bad_data);
  BOOST_CHECK(exit_code_of([] { Degradation(32, 32, -1, 4); }) == ExitCode::bad_data);
  BOOST_CHECK(exit_code_of([] { Degradation(32, 32, std::nan(""), 4); }) == ExitCode::bad_data);
  BOOST_CHECK(exit_code_of([] { Degradation(32, 32, 1, 4).apply(at::zeros({32, 16})); }) == ExitCode::bad_data);
  BOOST_CHECK(exit_code_of([] { Degradation(32, 32, 1, 4).adjoint(at::zeros({32, 32})); }) == ExitCode::bad_data);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(beams)

BOOST_AUTO_TEST_CASE(difference_kernel_adds_in_quadrature) {
  // SPIRE 500 micron (36.6 arcsec) from 250 micron (18.1): sqrt(36.6^2 - 18.1^2) = 31.8111...
  BOOST_TEST(Beam{36.6}.difference(Beam{18.1}).fwhm == 31.811161563199794, boost::test_tools::tolerance(1e-14));
  BOOST_TEST(Beam{5}.difference(Beam{5}).fwhm == 0);
  BOOST_TEST(Beam::from_sigma(Beam{3.7}.sigma()).fwhm == 3.7, boost::test_tools::tolerance(1e-15));
  BOOST_CHECK(exit_code_of([] { Beam{18}.difference(Beam{18.1}); }) == ExitCode::bad_data);
  BOOST_CHECK(exit_code_of([] { Beam{std::nan("")}.difference(Beam{18.1}); }) == ExitCode::bad_data);
}

BOOST_AUTO_TEST_CASE(area_is_the_textbook_one) {
  // Omega = pi/(4 ln 2) FWHM^2 = 1.1330900354567985 FWHM^2
  BOOST_TEST(Beam{18.1}.area() == 1.1330900354567985 * 18.1 * 18.1, boost::test_tools::tolerance(1e-14));
}

BOOST_AUTO_TEST_CASE(two_blurs_are_one_of_the_larger_beam) {
  // Away from the border; the sampled kernels differ from Gaussians by aliasing, small from FWHM 2.5 pixels on.
  const at::Tensor point = at::zeros({96, 96}, at::kDouble);
  point[48][48] = 1;
  const Beam small{3}, large{7};
  const at::Tensor twice =
      Degradation(96, 96, large.difference(small).sigma(), 1).apply(Degradation(96, 96, small.sigma(), 1).apply(point));
  const at::Tensor once = Degradation(96, 96, large.sigma(), 1).apply(point);
  BOOST_TEST(largest(twice - once) < 1e-5 * largest(once));
}

BOOST_AUTO_TEST_SUITE_END()
