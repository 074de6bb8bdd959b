// Preconditioning identities, and the samplers on data whose solution is known in closed form.
#include "diffusion/sampler.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "diffusion/preconditioning.h"
#include "tests/diffusion/gaussian_data.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
using diffusion::SamplerOptions;

SamplerOptions options(const std::string& name, int steps, double churn = 0) {
  SamplerOptions o;
  o.name = name;
  o.steps = steps;
  o.churn = churn;
  return o;
}

/// Relative error of a sampler's result at float64, for Gaussian data. The last step (from sigma_min to 0) is one
/// evaluation of D in all samplers: the solution they approach is D at the exact state of sigma_min.
double error(const SamplerOptions& o) {
  const at::Tensor n = normals({8}, 1, at::kDouble);
  const at::Tensor found = diffusion::sample(o, gaussian_denoiser, [&](std::uint32_t) { return n; });
  const at::Tensor exact = gaussian_denoiser(n * o.sigma_max * ode_factor(o.sigma_max, o.sigma_min), o.sigma_min);
  return ((found - exact).norm() / exact.norm()).item<double>();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(preconditioning)

BOOST_AUTO_TEST_CASE(coefficients_obey_the_identities_of_edm) {
  const at::Tensor sigma = at::tensor({0.002, 0.01, 0.3, 0.5, 1.0, 7.0, 80.0}, at::kDouble);
  const diffusion::Preconditioning c = diffusion::precondition(sigma);
  const double s = diffusion::kSigmaData;
  const at::Tensor s2 = sigma.square(), in = (s2 + s * s).rsqrt();
  const auto largest = [](const at::Tensor& x) { return x.abs().max().item<double>(); };
  BOOST_TEST((c.skip.sizes() == at::IntArrayRef{7, 1, 1, 1}));
  BOOST_TEST((c.noise.sizes() == at::IntArrayRef{7}));
  const at::Tensor skip = c.skip.flatten(), out = c.out.flatten();
  // Table 1 of Karras et al. 2022, by their derivation: the target of F, (x0 - skip x) / out, has unit variance ...
  BOOST_TEST(largest(((1 - skip).square() * s * s + skip.square() * s2) / out.square() - 1) < 1e-12);
  // ... and skip makes out as small as it can be: d(out^2)/d(skip) = 0.
  BOOST_TEST(largest(-2 * (1 - skip) * s * s + 2 * skip * s2) < 1e-12);
  BOOST_TEST(largest(out - sigma * s * in) < 1e-12);
  BOOST_TEST(largest(c.noise - sigma.log() / 4) < 1e-12);
  // Limits: without noise D(x) = x; with endless noise it is F alone, at the data's rms.
  const auto ends = diffusion::precondition(at::tensor({1e-6, 1e6}, at::kDouble));
  BOOST_TEST(std::abs(ends.skip[0].item<double>() - 1) < 1e-10);
  BOOST_TEST(std::abs(ends.out[1].item<double>() - s) < 1e-10);
}

BOOST_AUTO_TEST_CASE(noise_levels_fall_from_sigma_max_to_sigma_min_then_zero) {
  const std::vector<double> s = diffusion::noise_levels(18, 0.002, 80, 7);
  BOOST_TEST_REQUIRE(s.size() == 19u);
  BOOST_TEST(s[0] == 80, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(s[17] == 0.002, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(s[18] == 0);
  for (std::size_t i = 0; i + 1 < s.size(); ++i) BOOST_TEST(s[i] > s[i + 1]);
  // Evenly spaced in sigma^(1/7).
  for (std::size_t i = 1; i + 1 < 18; ++i)
    BOOST_TEST(2 * std::pow(s[i], 1 / 7.0) == std::pow(s[i - 1], 1 / 7.0) + std::pow(s[i + 1], 1 / 7.0),
               boost::test_tools::tolerance(1e-12));
  // t_1 of EDM's default schedule, as the NVlabs code gives it.
  BOOST_TEST(s[1] == 57.586, boost::test_tools::tolerance(1e-4));
  const std::vector<double> one = diffusion::noise_levels(1, 0.002, 80, 7);
  BOOST_TEST(one.size() == 2u);
  BOOST_TEST(one[0] == 80, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(samplers)

BOOST_AUTO_TEST_CASE(samplers_converge_to_the_exact_solution_with_their_order) {
  for (const auto& [name, order] : {std::pair<const char*, double>{"euler", 1}, {"heun", 2}, {"dpmpp", 2}}) {
    const double coarse = error(options(name, 64)), fine = error(options(name, 128)),
                 finest = error(options(name, 256));
    // Orders measured between 64, 128 and 256 steps lie within 0.25 of the asymptotic ones.
    BOOST_TEST(std::abs(std::log2(coarse / fine) - order) < 0.25, name << ": " << std::log2(coarse / fine));
    BOOST_TEST(std::abs(std::log2(fine / finest) - order) < 0.25, name << ": " << std::log2(fine / finest));
    BOOST_TEST(finest < (order == 1 ? 0.02 : 0.001), name << ": " << finest);
  }
}

BOOST_AUTO_TEST_CASE(sixteen_steps_are_as_good_as_they_are_meant_to_be) {
  BOOST_TEST(error(options("dpmpp", 16)) < 0.06);
  BOOST_TEST(error(options("heun", 16)) < 0.06);
  BOOST_TEST(error(options("euler", 16)) > error(options("heun", 16)));
}

BOOST_AUTO_TEST_CASE(churn_keeps_the_variance_of_the_data) {
  for (const char* name : {"euler", "heun"}) {
    int draws = 0;
    const auto noise = [&](std::uint32_t step) {
      BOOST_TEST(step == static_cast<std::uint32_t>(draws++));  // 0 first, then the churn of each step
      return normals({10000}, 50 + step, at::kDouble);
    };
    const at::Tensor x = diffusion::sample(options(name, 256, 20), gaussian_denoiser, noise);
    BOOST_TEST(draws == 257);
    // The rms of 10000 values is known to 0.7%; Euler's own error with 256 steps of that churn is 2.7%.
    BOOST_TEST(x.square().mean().sqrt().item<double>() == kDataRms,
               boost::test_tools::tolerance(std::string(name) == "euler" ? 0.055 : 0.03));
    // So much churn forgets the initial noise, which alone would decide the sample without it.
    BOOST_TEST(std::abs((x * normals({10000}, 50, at::kDouble)).mean().item<double>()) / kDataRms < 0.1);
  }
}

BOOST_AUTO_TEST_CASE(evaluations_are_what_a_sample_costs) {
  for (const char* name : {"euler", "heun", "dpmpp", "mean"})
    for (const int steps : {1, 2, 7, 16}) {
      int calls = 0;
      const SamplerOptions o = options(name, steps);
      const auto counted = [&](const at::Tensor& x, double sigma) {
        ++calls;
        BOOST_TEST(sigma > 0);
        BOOST_TEST(sigma < o.sigma_max * 1.0001);
        return gaussian_denoiser(x, sigma);
      };
      diffusion::sample(o, counted, [](std::uint32_t) { return at::ones({1}, at::kDouble); });
      BOOST_TEST(calls == diffusion::evaluations(o), name << " of " << steps << " steps");
    }
}

BOOST_AUTO_TEST_CASE(the_mean_is_one_evaluation_at_the_highest_level) {
  const at::Tensor n = normals({5}, 2, at::kDouble);
  const at::Tensor found = diffusion::sample(options("mean", 16), gaussian_denoiser, [&](std::uint32_t) { return n; });
  BOOST_TEST(at::equal(found, gaussian_denoiser(n * 40.0, 40)));
}

BOOST_AUTO_TEST_CASE(unknown_samplers_and_churn_where_there_is_none_are_usage_errors) {
  const auto code = [](const SamplerOptions& o) {
    try {
      diffusion::sample(o, gaussian_denoiser, [](std::uint32_t) { return at::ones({1}); });
    } catch (const Error& e) {
      return static_cast<int>(e.code());
    }
    return 0;
  };
  BOOST_TEST(code(options("ddim", 4)) == 64);
  BOOST_TEST(code(options("", 4)) == 64);
  BOOST_TEST(code(options("dpmpp", 4, 1)) == 64);
  BOOST_TEST(code(options("mean", 4, 1)) == 64);
  BOOST_TEST(code(options("euler", 4, 1)) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
