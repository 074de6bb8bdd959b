// SR3 against the published counts, against a second construction from PyTorch's modules, and its schedule and sampler
// against the closed form of Gaussian data.
#include "diffusion/sr3_network.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <set>

#include "diffusion/sampler.h"
#include "diffusion/sr3_schedule.h"
#include "kernels/normal_noise.h"
#include "tests/diffusion/sr3_reference.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
using diffusion::Sr3Config;
using diffusion::Sr3Network;

at::Tensor normals(at::IntArrayRef shape, std::uint64_t seed) {
  return kernels::normals(shape, seed, Purpose::bootstrap, 0);
}

Sr3Config reduced() {
  Sr3Config c;
  c.inner = 16;
  c.multipliers = {1, 2, 4};
  c.blocks = 2;
  c.attention_level = 1;
  c.groups = 8;
  return c;
}

/// A network whose biases and norms are not the trivial ones it starts with.
void randomise(Sr3Network& network) {
  std::uint64_t seed = 100;
  for (const diffusion::NamedTensor& p : network.parameters())
    if (p.tensor.dim() == 1) p.tensor.add_(0.2 * normals(p.tensor.sizes(), ++seed));
}

double rms(const at::Tensor& x) { return x.to(at::kDouble).square().mean().sqrt().item<double>(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(sr3_layout)

BOOST_AUTO_TEST_CASE(the_published_network_has_542723457_parameters_in_564_tensors) {
  const auto all = Sr3Network::layout({});
  std::int64_t count = 0;
  std::set<std::string> names;
  for (const auto& p : all) {
    names.insert(p.name);
    count += std::accumulate(p.shape.begin(), p.shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  BOOST_TEST(all.size() == 564u);
  BOOST_TEST(names.size() == all.size());
  BOOST_TEST(count == 542'723'457);
}

BOOST_AUTO_TEST_CASE(a_forward_pass_at_256_takes_1556_gflop) {
  // Only the sizes of the layers count: levels of one tenth of the width need one hundredth of the work, but for the
  // first and last layer; so the full network is measured on its own layout, without weights.
  const Sr3Network network({}, 0, at::Device(at::kMeta), at::kFloat, Sr3Network::Weights::unset);
  BOOST_TEST(network.flops(256, 256) == 1556.3e9, boost::test_tools::tolerance(1e-4));
  BOOST_TEST(network.alignment() == 32);
}

BOOST_AUTO_TEST_CASE(weights_start_orthogonal_and_biases_at_zero) {
  Sr3Network network(reduced(), 3, at::kCPU, at::kFloat);
  for (const diffusion::NamedTensor& p : network.parameters()) {
    if (p.tensor.dim() == 1) {
      const bool scale = p.name.find("norm.weight") != std::string::npos;
      BOOST_TEST(p.tensor.sub(scale ? 1 : 0).abs().max().item<float>() == 0.f, p.name);
      continue;
    }
    at::Tensor w = p.tensor.contiguous().flatten(1);
    if (w.size(0) > w.size(1)) w = w.t();
    BOOST_TEST((w.matmul(w.t()) - at::eye(w.size(0))).abs().max().item<float>() < 1e-5f, p.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(sr3_forward)

BOOST_AUTO_TEST_CASE(it_equals_a_construction_from_pytorchs_modules) {
  const c10::NoGradGuard no_grad;
  for (const std::int64_t attention : {0, 1, 2}) {
    Sr3Config c = reduced();
    c.attention_level = attention;
    Sr3Network network(c, 5, at::kCPU, at::kFloat);
    randomise(network);
    Sr3Reference reference({c.inner, c.multipliers, c.blocks, c.attention_level, c.groups});
    const auto theirs = reference.by_name();
    BOOST_TEST_REQUIRE(theirs.size() == network.parameters().size());
    for (const diffusion::NamedTensor& p : network.parameters()) theirs.at(p.name).copy_(p.tensor);

    const at::Tensor x = normals({2, 1, 24, 32}, 7), maps = normals({2, 1, 24, 32}, 8), sigma = at::tensor({0.3f, 4.f});
    const at::Tensor g = (1 + sigma.square()).rsqrt();
    // D = x - sigma eps(g x).
    const at::Tensor expected = reference.forward(maps, g.view({2, 1, 1, 1}) * x, g);
    network.prepare_for_sampling(at::kFloat);
    const at::Tensor found = (x - network.denoise(x, sigma, {maps, at::empty({2, 0})})) / sigma.view({2, 1, 1, 1});
    BOOST_TEST(rms(expected) > 0.1);
    BOOST_TEST((found - expected).abs().max().item<float>() < 1e-4 * expected.abs().max().item<float>());
    // In bfloat16 each of some forty roundings costs 2^-9.
    network.prepare_for_sampling(at::kBFloat16);
    const at::Tensor rough = (x - network.denoise(x, sigma, {maps, at::empty({2, 0})})) / sigma.view({2, 1, 1, 1});
    BOOST_TEST(rms(rough - expected) < 0.03 * rms(expected));
  }
}

BOOST_AUTO_TEST_CASE(gradients_equal_those_of_that_construction) {
  Sr3Config c = reduced();
  c.dropout = 0;
  Sr3Network network(c, 6, at::kCPU, at::kFloat);
  randomise(network);
  Sr3Reference reference({c.inner, c.multipliers, c.blocks, c.attention_level, c.groups});
  const auto theirs = reference.by_name();
  std::vector<at::Tensor> mine, other;
  for (const diffusion::NamedTensor& p : network.parameters()) {
    const c10::NoGradGuard no_grad;
    theirs.at(p.name).copy_(p.tensor);
    mine.push_back(p.tensor.requires_grad_(true));
    other.push_back(theirs.at(p.name));
  }
  const at::Tensor x0 = 0.5 * normals({2, 1, 16, 16}, 9), noise = normals({2, 1, 16, 16}, 10),
                   maps = normals({2, 1, 16, 16}, 11), sigma = at::tensor({0.2f, 1.5f}),
                   g = (1 + sigma.square()).rsqrt();
  const at::Tensor loss = network.loss(x0, noise, sigma, {maps, at::empty({2, 0}), at::arange(2)});
  // x_t = g x0 + sqrt(1 - g^2) noise; mean absolute error of the noise.
  const at::Tensor wide = g.view({2, 1, 1, 1}), noisy = wide * x0 + (1 - wide.square()).sqrt() * noise;
  const at::Tensor expected = (noise - reference.forward(maps, noisy, g)).abs().mean();
  BOOST_TEST(loss.item<float>() == expected.item<float>(), boost::test_tools::tolerance(1e-5f));
  const auto a = torch::autograd::grad({loss}, mine), b = torch::autograd::grad({expected}, other);
  for (std::size_t i = 0; i < a.size(); ++i)
    BOOST_TEST(rms(a[i] - b[i]) <= 1e-3 * rms(b[i]) + 1e-8, network.parameters()[i].name);
}

BOOST_AUTO_TEST_CASE(dropout_acts_in_training_alone_and_follows_the_samples_number) {
  Sr3Network network(reduced(), 7, at::kCPU, at::kFloat);
  const at::Tensor x0 = normals({2, 1, 16, 16}, 1), noise = normals({2, 1, 16, 16}, 2), sigma = at::full({2}, 0.5f);
  const auto loss = [&](const at::Tensor& samples) {
    return network.loss(x0, noise, sigma, {noise, at::empty({2, 0}), samples}).item<float>();
  };
  const at::Tensor some = at::tensor({3, 4}, at::kLong);
  BOOST_TEST(loss(some) == loss(some));
  BOOST_TEST(loss(some) != loss(some + 1));
  BOOST_TEST(loss(some) != loss({}));
  BOOST_TEST(loss({}) == loss({}));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(sr3_schedule)

BOOST_AUTO_TEST_CASE(the_schedule_is_linear_from_1e_6_to_1e_2) {
  const diffusion::Sr3Schedule s;
  BOOST_TEST(s.beta.size() == 2001u);
  BOOST_TEST(s.beta[1] == 1e-6, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(s.beta[2000] == 1e-2, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(s.beta[1000] - s.beta[999] == s.beta[2] - s.beta[1], boost::test_tools::tolerance(1e-9));
  BOOST_TEST(s.alpha_bar[0] == 1);
  BOOST_TEST(s.alpha_bar[1] == 1 - 1e-6, boost::test_tools::tolerance(1e-12));
  // ln of the product of 1 - beta: -sum(beta) - sum(beta^2)/2 - sum(beta^3)/3, sums over an arithmetic sequence.
  BOOST_TEST(std::log(s.alpha_bar[2000]) == -10.001 - 0.5 * 0.06668 - 5.0e-4 / 3, boost::test_tools::tolerance(1e-4));
  BOOST_TEST(diffusion::sigma_of(s.g(2000)) == std::sqrt(1 / s.alpha_bar[2000] - 1),
             boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(ancestral_sampling_of_gaussian_data_has_their_mean_and_spread) {
  // x0 ~ N(m, v): E[x0 | x0 + sigma n] is linear, and 2000 steps of the exact posterior give N(m, v) back. Far inside
  // [-1, 1], where nothing is cut.
  constexpr double mean = 0.2, spread = 0.1;
  const auto denoise = [&](const at::Tensor& x, double sigma) {
    const double k = spread * spread / (spread * spread + sigma * sigma);
    return x * k + mean * (1 - k);
  };
  const auto noise = [&](std::uint32_t step) {
    return kernels::normal_noise({1, 1, 64, 64}, {5, Purpose::sampler_noise, {0}, step});
  };
  diffusion::SamplerOptions options;
  options.name = "ddpm";
  const at::Tensor x = diffusion::sample(options, denoise, noise);
  // 4096 pixels: four standard errors of mean and spread.
  BOOST_TEST(std::abs(x.mean().item<double>() - mean) < 4 * spread / 64);
  BOOST_TEST(std::abs(x.std().item<double>() - spread) < 4 * spread / std::sqrt(2.0 * 4096));
  BOOST_TEST(diffusion::evaluations(options) == 2000);
}

BOOST_AUTO_TEST_SUITE_END()
