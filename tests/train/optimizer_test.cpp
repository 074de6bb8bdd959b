// Adam against its paper's loop, the learning-rate schedule, and the average of the weights against its closed form.
#include "train/optimizer.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "base/random.h"

namespace {

using namespace cirrus;
using train::Optimizer;
using train::OptimizerOptions;

at::Tensor normals(at::IntArrayRef shape, std::uint64_t seed) {
  Stream stream(Address(seed, Purpose::bootstrap));
  at::Tensor out = at::empty(shape, at::kFloat);
  for (std::int64_t i = 0; i < out.numel(); ++i) out.view(-1)[i] = stream.normal();
  return out;
}

double largest(const at::Tensor& x) { return x.abs().max().item<double>(); }

/// Kingma and Ba 2015, Algorithm 1, with decoupled decay (Loshchilov and Hutter 2019, Algorithm 2), in float64.
struct Textbook {
  at::Tensor x, m, v;
  int t = 0;
  explicit Textbook(const at::Tensor& start) : x(start.to(at::kDouble)), m(at::zeros_like(x)), v(at::zeros_like(x)) {}
  void step(const at::Tensor& g, double rate, const OptimizerOptions& o) {
    ++t;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const at::Tensor mhat = m / (1 - std::pow(o.beta1, t)), vhat = v / (1 - std::pow(o.beta2, t));
    x = x - rate * o.weight_decay * x - rate * mhat / (vhat.sqrt() + o.epsilon);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(optimizer)

BOOST_AUTO_TEST_CASE(steps_equal_adam_with_decoupled_decay_and_clipping) {
  for (const double decay : {0.0, 0.1})
    for (const double clip : {0.0, 1.0}) {
      OptimizerOptions o;
      o.weight_decay = decay;
      o.clip = clip;
      const at::Tensor a = normals({4, 5}, 1).requires_grad_(true), b = normals({3}, 2).requires_grad_(true);
      Textbook ta(a.detach()), tb(b.detach());
      Optimizer optimizer(o, {a, b}, device::cpu());
      for (std::uint64_t k = 0; k < 60; ++k) {
        const at::Tensor ga = normals({4, 5}, 100 + k) * std::pow(10.0, static_cast<double>(k % 4) - 2),
                         gb = normals({3}, 200 + k);
        a.mutable_grad() = ga.clone();
        b.mutable_grad() = gb.clone();
        const double rate = 0.01 * (1 + static_cast<double>(k % 3));
        const double norm =
            std::sqrt((ga.to(at::kDouble).square().sum() + gb.to(at::kDouble).square().sum()).item<double>());
        const double scale = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
        ta.step(ga.to(at::kDouble) * scale, rate, o);
        tb.step(gb.to(at::kDouble) * scale, rate, o);
        optimizer.schedule(rate);
        BOOST_TEST(optimizer.step(train::take_gradients({a, b})).item<double>() == norm,
                   boost::test_tools::tolerance(1e-5));  // before clipping
        BOOST_TEST(!a.grad().defined());
      }
      // 60 steps of about 0.02 in float32: roundings of 1e-7 each.
      BOOST_TEST(largest(a.detach().to(at::kDouble) - ta.x) < 2e-5);
      BOOST_TEST(largest(b.detach().to(at::kDouble) - tb.x) < 2e-5);
      BOOST_TEST(optimizer.updates() == 60);
    }
}

BOOST_AUTO_TEST_CASE(a_parameter_without_gradient_stays_and_counts_as_zero) {
  const at::Tensor a = normals({3}, 1).requires_grad_(true), b = normals({3}, 2).requires_grad_(true),
                   before = b.detach().clone();
  Optimizer optimizer({}, {a, b}, device::cpu());
  a.mutable_grad() = at::full({3}, 2.f);
  optimizer.schedule(0.01);
  BOOST_TEST(optimizer.step(train::take_gradients({a, b})).item<double>() == std::sqrt(12.0),
             boost::test_tools::tolerance(1e-6));
  BOOST_TEST(at::equal(b.detach(), before));
}

BOOST_AUTO_TEST_CASE(the_average_equals_its_closed_form) {
  // Eq. 127 of Karras et al. 2024: weights of step t enter in proportion to t^gamma; the recursion telescopes to
  // sum over t of ((t / n)^(gamma + 1) - ((t - 1) / n)^(gamma + 1)) w_t.
  OptimizerOptions o;
  const at::Tensor w = at::zeros({3}).requires_grad_(true);
  Optimizer optimizer(o, {w}, device::cpu());
  std::vector<at::Tensor> history;
  constexpr int n = 200;
  for (int t = 1; t <= n; ++t) {
    w.mutable_grad() = normals({3}, static_cast<std::uint64_t>(t));
    optimizer.schedule(0.05);
    optimizer.step(train::take_gradients({w}));
    optimizer.average();
    history.push_back(w.detach().to(at::kDouble).clone());
  }
  at::Tensor expected = at::zeros({3}, at::kDouble);
  const double p = o.ema_gamma + 1;
  for (int t = 1; t <= n; ++t)
    expected += history[static_cast<std::size_t>(t - 1)] *
                (std::pow(static_cast<double>(t) / n, p) - std::pow((t - 1.0) / n, p));
  BOOST_TEST(largest(optimizer.averaged()[0].to(at::kDouble) - expected) <
             1e-5);  // 200 float32 blends of values near 1
  BOOST_TEST(largest(optimizer.averaged()[0].to(at::kDouble) - history.back()) > 1e-3);
}

BOOST_AUTO_TEST_CASE(restored_moments_go_on_bit_for_bit) {
  const auto gradient = [](const at::Tensor& w, int k) {
    w.mutable_grad() = normals({4}, static_cast<std::uint64_t>(300 + k));
  };
  const at::Tensor w = normals({4}, 3).requires_grad_(true);
  Optimizer straight({}, {w}, device::cpu());
  at::Tensor kept, first, second, averaged;
  for (int k = 0; k < 10; ++k) {
    if (k == 6) {
      kept = w.detach().clone();
      first = straight.first_moments()[0].clone();
      second = straight.second_moments()[0].clone();
      averaged = straight.averaged()[0].clone();
    }
    gradient(w, k);
    straight.schedule(0.01);
    straight.step(train::take_gradients({w}));
    straight.average();
  }
  const at::Tensor v = kept.clone().requires_grad_(true);
  Optimizer resumed({}, {v}, device::cpu());
  resumed.first_moments()[0].copy_(first);
  resumed.second_moments()[0].copy_(second);
  resumed.averaged()[0].copy_(averaged);
  resumed.set_updates(6, 6);
  for (int k = 6; k < 10; ++k) {
    gradient(v, k);
    resumed.schedule(0.01);
    resumed.step(train::take_gradients({v}));
    resumed.average();
  }
  BOOST_TEST(at::equal(v.detach(), w.detach()));
  BOOST_TEST(at::equal(resumed.averaged()[0], straight.averaged()[0]));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(learning_rate_schedule)

BOOST_AUTO_TEST_CASE(the_rate_warms_up_stays_decays_and_cools_down) {
  OptimizerOptions o;
  o.learning_rate = 0.1;
  o.warmup = 10;
  o.constant_steps = 100;
  o.cooldown_share = 0.25;
  o.final_share = 0.04;
  const auto rate = [&](std::int64_t step) { return train::learning_rate(o, step, 800); };
  const auto tight = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(rate(0) == 0.01, tight);
  BOOST_TEST(rate(4) == 0.05, tight);
  BOOST_TEST(rate(9) == 0.1, tight);
  BOOST_TEST(rate(10) == 0.1, tight);
  BOOST_TEST(rate(100) == 0.1, tight);
  BOOST_TEST(rate(400) == 0.05, tight);  // sqrt(100 / 400)
  BOOST_TEST(rate(600) == 0.1 * std::sqrt(100.0 / 600), tight);
  BOOST_TEST(rate(700) == 0.1 * std::sqrt(100.0 / 700) * 0.52, tight);  // half way down from 1 to 0.04
  BOOST_TEST(rate(800) == 0.1 * std::sqrt(100.0 / 800) * 0.04, tight);
  for (std::int64_t s = 0; s < 800; ++s) {
    BOOST_TEST(rate(s) > 0);
    if (s >= 10) BOOST_TEST(rate(s + 1) <= rate(s));
  }
}

BOOST_AUTO_TEST_CASE(parts_of_the_schedule_can_be_left_out) {
  OptimizerOptions o;
  o.learning_rate = 0.1;
  o.warmup = 0;
  o.cooldown_share = 0;
  for (const std::int64_t s : {0, 1, 500, 999}) BOOST_TEST(train::learning_rate(o, s, 1000) == 0.1);
  o.cooldown_share = 1;  // from the first step to the last
  BOOST_TEST(train::learning_rate(o, 500, 1000) == 0.1 * 0.51, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_SUITE_END()
