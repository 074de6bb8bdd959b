// The pointwise operators of activation.h against their reference compositions, and what they are for: unit magnitude.
#include "kernels/activation.h"

#include <cmath>

#include "tests/kernels/fused_operator.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

Tensors pair(std::pair<at::Tensor, at::Tensor> p) { return {p.first, p.second}; }

const std::vector<Subject>& subjects() {
  // Rounding of the result costs 2^-9 relative in bfloat16, everywhere. Where the backward pass reads a stored bfloat16
  // argument v, the slope is off by up to |v| 2^-9 / 3 / 0.576, that is 0.0034 times the incoming gradient (4 at most
  // here); pixel_norm_act adds the error of a mean. Gradients of scales sum up to 272 products.
  static const std::vector<Subject> all{
      {"act", [](const Tensors& t) { return Tensors{kernels::act(t[0])}; },
       [](const Tensors& t) { return Tensors{kernels::reference::act(t[0])}; },
       [](const Shape& s) { return Tensors{field(s, 1)}; }, 1e-6, [](const Tensors& t) { return t[0]; }},
      {"scale_act", [](const Tensors& t) { return Tensors{kernels::scale_act(t[0], t[1])}; },
       [](const Tensors& t) { return Tensors{kernels::reference::scale_act(t[0], t[1])}; },
       [](const Shape& s) {
         return Tensors{field(s, 2), 1 + 0.3 * normals({s.n, s.c}, 3)};
       },
       2e-5, [](const Tensors& t) { return t[0] * t[1].unsqueeze(-1).unsqueeze(-1); }},
      {"pixel_norm_act", [](const Tensors& t) { return pair(kernels::pixel_norm_act(t[0])); },
       [](const Tensors& t) { return pair(kernels::reference::pixel_norm_act(t[0])); },
       [](const Shape& s) { return Tensors{field(s, 4)}; }, 0.1,
       [](const Tensors& t) { return kernels::reference::pixel_norm_act(t[0]).first; }},
      {"mp_sum", [](const Tensors& t) { return Tensors{kernels::mp_sum(t[0], t[1], 0.3)}; },
       [](const Tensors& t) { return Tensors{kernels::reference::mp_sum(t[0], t[1], 0.3)}; },
       [](const Shape& s) {
         return Tensors{field(s, 7), field(s, 8)};
       }}};
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(activation)

BOOST_AUTO_TEST_CASE(fused_operators_equal_their_references) { check_everywhere(subjects()); }

BOOST_AUTO_TEST_CASE(references_have_the_gradients_of_finite_differences) {
  check_references_by_finite_differences(subjects());
}

BOOST_AUTO_TEST_CASE(one_and_two_threads_give_equal_bits) { check_threads(subjects()); }

BOOST_AUTO_TEST_CASE(the_layout_of_the_input_does_not_matter) { check_layouts(subjects()); }

BOOST_AUTO_TEST_CASE(an_output_that_is_not_used_counts_as_a_zero_gradient) { check_unused_outputs(subjects()); }

BOOST_AUTO_TEST_CASE(the_activation_is_hardswish_at_unit_rms) {
  // Values of Howard et al. 2019: x relu6(x + 3) / 6.
  const at::Tensor y =
      kernels::act(at::tensor({-4.f, -3.f, -1.f, 0.f, 1.f, 3.f, 5.f}).view({1, 7, 1, 1})) * kernels::kHardswishRms;
  const at::Tensor expected = at::tensor({0.f, 0.f, -1 / 3.f, 0.f, 2 / 3.f, 3.f, 5.f}).view({1, 7, 1, 1});
  check_close(y.to(at::kDouble), expected.to(at::kDouble), 1e-6, 1e-7, "hardswish");

  // The rms under N(0, 1) by the trapezoidal rule, which converges exponentially for a decaying integrand; its kinks
  // leave O(h^2).
  double sum = 0;
  constexpr double h = 1e-4;
  for (double x = -12; x < 12; x += h) {
    const double v = x * std::clamp(x + 3, 0.0, 6.0) / 6;
    sum += h * v * v * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
  }
  BOOST_TEST(std::sqrt(sum) == kernels::kHardswishRms, boost::test_tools::tolerance(1e-8));
}

BOOST_AUTO_TEST_CASE(unit_variance_in_is_unit_variance_out) {
  const at::Tensor a = normals({2, 48, 32, 32}, 11).to(at::kFloat);
  const auto mean_square = [](const at::Tensor& x) { return x.to(at::kDouble).square().mean().item<double>(); };
  // The mean of 32768 or more squares with a spread of at most 3: 4 standard errors are 0.07.
  const auto tolerance = boost::test_tools::tolerance(0.07);
  BOOST_TEST(mean_square(kernels::act(a)) == 1, tolerance);
  BOOST_TEST(mean_square(kernels::scale_act(a, at::ones({2, 48}))) == 1, tolerance);
  BOOST_TEST(mean_square(kernels::mp_sum(a, normals(a.sizes(), 13).to(at::kFloat), 0.3)) == 1, tolerance);
  // Both parts of a concatenation bring the same total, whatever their channels, and together unit magnitude.
  const auto [wa, wb] = kernels::cat_weights(48, 16);
  BOOST_TEST(48 * wa * wa == 16 * wb * wb, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(48 * wa * wa + 16 * wb * wb == 64, boost::test_tools::tolerance(1e-12));

  const auto [normed, act_normed] = kernels::pixel_norm_act(37 * a);
  // Each pixel has mean square 1 over its channels, up to float32 and epsilon.
  BOOST_TEST(normed.square().mean(1).sub(1).abs().max().item<double>() < 1e-5);
  BOOST_TEST(mean_square(act_normed) == 1, tolerance);
}

BOOST_AUTO_TEST_CASE(pixel_norm_of_an_empty_pixel_is_zero_and_has_a_finite_gradient) {
  const Pass pass = differentiate([](const Tensors& t) { return pair(kernels::pixel_norm_act(t[0])); },
                                  {at::zeros({1, 5, 2, 2}, at::kDouble)}, at::kFloat);
  BOOST_TEST(pass.outputs[0].abs().max().item<double>() == 0);
  BOOST_TEST(pass.gradients[0].isfinite().all().item<bool>());
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  const at::Tensor a = at::zeros({1, 4, 3, 3});
  BOOST_CHECK_THROW(kernels::mp_sum(a, at::zeros({1, 4, 3, 2}), 0.3), c10::Error);
  BOOST_CHECK_THROW(kernels::mp_sum(a, a.to(at::kBFloat16), 0.3), c10::Error);
  BOOST_CHECK_THROW(kernels::scale_act(a, at::zeros({1, 3})), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
