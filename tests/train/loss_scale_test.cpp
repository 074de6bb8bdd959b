// Loss scaling: gradients come back unscaled, an overflow leaves everything but the scale alone, and a network trains
// in float16 as it does in float32.
#include "train/loss_scale.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>
#include <limits>

#include "diffusion/edm_network.h"
#include "kernels/normal_noise.h"
#include "train/optimizer.h"

namespace {

using namespace cirrus;
using train::LossScale;

double scale_of(const LossScale& s) { return s.state()[0].item<double>(); }

/// Losses of some steps of a small network on one batch, computed in `type`.
std::vector<double> losses(at::ScalarType type, int steps) {
  diffusion::EdmConfig config;
  config.widths = {8, 16};
  config.middle_blocks = 1;
  config.embedding = 16;
  diffusion::EdmNetwork network(config, 2, at::kCPU, type);
  network.after_update();
  std::vector<at::Tensor> parameters;
  for (const diffusion::NamedTensor& p : network.parameters()) parameters.push_back(p.tensor.requires_grad_(true));
  train::Optimizer optimizer({}, parameters, device::cpu(), type);
  const auto noise = [](std::uint64_t item, std::int64_t channels) {
    return kernels::normal_noise({1, 1, 4 * channels, 256}, {3, Purpose::bootstrap, {item}})
        .view({4, channels, 16, 16});
  };
  const at::Tensor x0 = 0.5 * noise(1, 1), n = noise(2, 1), maps = noise(3, 3),
                   sigma = at::tensor({0.1f, 0.4f, 1.f, 3.f});
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) {
    optimizer.schedule(0.01);
    const at::Tensor loss = network.loss(x0, n, sigma, {maps, at::zeros({4, 4})});
    torch::autograd::backward({optimizer.scaled(loss)}, {});
    optimizer.step(train::take_gradients(parameters));
    network.after_update();
    out.push_back(loss.item<double>());
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(loss_scale)

BOOST_AUTO_TEST_CASE(gradients_come_back_unscaled) {
  LossScale s(at::kCPU);
  BOOST_TEST(scale_of(s) == 65536);
  const at::Tensor x = at::tensor({1.f, -2.f, 3e-9f}).requires_grad_(true);
  torch::autograd::backward({s.scaled((x * x).sum())}, {});
  std::vector<at::Tensor> gradients{x.grad()};
  BOOST_TEST(s.unscale(gradients).item<float>() == 0.f);
  BOOST_TEST(at::equal(gradients[0], 2 * x.detach()));  // powers of two: exact
  BOOST_TEST(scale_of(s) == 65536);
}

BOOST_AUTO_TEST_CASE(the_scale_halves_at_an_overflow_and_doubles_after_2000_good_steps) {
  LossScale s(at::kCPU);
  std::vector<at::Tensor> good{at::ones({2})},
      bad{at::ones({2}), at::tensor({0.f, std::numeric_limits<float>::infinity()})};
  BOOST_TEST(s.unscale(bad).item<float>() == 1.f);
  BOOST_TEST(scale_of(s) == 32768);
  for (int i = 0; i < 1999; ++i) s.unscale(good);
  BOOST_TEST(scale_of(s) == 32768);
  s.unscale(good);
  BOOST_TEST(scale_of(s) == 65536);
  // A restored scale goes on from where it was.
  LossScale other(at::kCPU);
  std::vector<at::Tensor> nan{at::full({1}, std::numeric_limits<float>::quiet_NaN())};
  s.unscale(nan);
  other.restore(s.state());
  BOOST_TEST(at::equal(other.state(), s.state()));
}

BOOST_AUTO_TEST_CASE(a_step_that_overflows_changes_no_weight_and_does_not_count) {
  const at::Tensor w = at::tensor({1.f, 2.f}).requires_grad_(true);
  train::Optimizer optimizer({}, {w}, device::cpu(), at::kHalf);
  const auto step = [&](const at::Tensor& gradient) {
    w.mutable_grad() = 65536 * gradient;
    optimizer.schedule(0.1);
    return optimizer.step(train::take_gradients({w})).item<double>();
  };
  const double norm = step(at::tensor({3.f, 4.f}));
  BOOST_TEST(norm == 5, boost::test_tools::tolerance(1e-5));
  const at::Tensor before = w.detach().clone(), moments = optimizer.first_moments()[0].clone();
  BOOST_TEST(step(at::tensor({1.f, std::numeric_limits<float>::infinity()})) == norm);  // that of the step before
  BOOST_TEST(at::equal(w.detach(), before));
  BOOST_TEST(at::equal(optimizer.first_moments()[0], moments));
  BOOST_TEST(optimizer.adam_steps().item<float>() == 1.f);
  BOOST_TEST(optimizer.loss_scale()->state()[0].item<float>() == 32768.f);
}

BOOST_AUTO_TEST_CASE(a_network_trains_in_float16_as_in_float32) {
  const std::vector<double> half = losses(at::kHalf, 30), full = losses(at::kFloat, 30);
  BOOST_TEST(full.back() < 0.8 * full.front());
  for (std::size_t i = 0; i < full.size(); ++i)  // activations rounded to 2^-11, weights kept in float32
    BOOST_TEST(half[i] == full[i], boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_SUITE_END()
