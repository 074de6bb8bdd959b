// Group normalisation against its reference, against ATen's own, and where statistics are hard.
#include "kernels/group_norm.h"

#include "tests/kernels/fused_operator.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

std::int64_t groups_of(const at::Tensor& x) { return x.size(1) % 3 == 0 ? x.size(1) / 3 : 1; }

Subject subject(bool silu) {
  // Scales' gradients sum up to 544 products of numbers of size 1, whose sums float32 keeps to 1e-6 of their largest.
  return {silu ? "group_norm with SiLU" : "group_norm",
          [=](const Tensors& t) { return Tensors{kernels::group_norm(t[0], groups_of(t[0]), t[1], t[2], silu)}; },
          [=](const Tensors& t) {
            return Tensors{kernels::reference::group_norm(t[0], groups_of(t[0]), t[1], t[2], silu)};
          },
          [](const Shape& s) {
            return Tensors{field(s, 1) + 0.5, 1 + 0.3 * normals({s.c}, 2), normals({s.c}, 3)};
          },
          1e-5,
          {},
          4e-6,
          1e-4};
}

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all{subject(false), subject(true)};
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(group_norm)

BOOST_AUTO_TEST_CASE(fused_operators_equal_their_references) { check_everywhere(subjects()); }

BOOST_AUTO_TEST_CASE(references_have_the_gradients_of_finite_differences) {
  check_references_by_finite_differences(subjects());
}

BOOST_AUTO_TEST_CASE(one_and_two_threads_give_equal_bits) { check_threads(subjects()); }

BOOST_AUTO_TEST_CASE(the_layout_of_the_input_does_not_matter) { check_layouts(subjects()); }

BOOST_AUTO_TEST_CASE(values_and_gradients_are_those_of_atens_group_norm) {
  for (const bool silu : {false, true})
    for (const Shape& shape : kShapes) {
      const Subject s = subject(silu);
      const Tensors inputs = s.inputs(shape);
      const Pass own = differentiate(s.reference, inputs, at::kDouble),
                 atens = differentiate(
                     [&](const Tensors&t) {
                       const at::Tensor y = at::group_norm(t[0], groups_of(t[0]), t[1], t[2], 1e-5, false);
                       return Tensors{silu ? at::silu(y) : y};
                     },
                     inputs, at::kDouble);
      check_close(own.outputs[0], atens.outputs[0], 1e-11, 1e-11, "output");
      for (std::size_t k = 0; k < 3; ++k)  // sums of up to 544 products, cancelling in part
        check_close(own.gradients[k], atens.gradients[k], 1e-10, 1e-10, "gradient");
    }
}

BOOST_AUTO_TEST_CASE(a_mean_far_from_zero_costs_no_digits_of_the_variance) {
  for (const Place& place : places()) {
    // Each channel at its own height: within a group the variance is that of the heights.
    const at::Tensor x = (1000 + normals({2, 6, 40, 33}, 5)).to(at::kFloat), one = at::ones({6}), zero = at::zeros({6});
    const at::Tensor found =
        kernels::group_norm(x.to(place.device), 2, one.to(place.device), zero.to(place.device), false);
    const at::Tensor exact =
        at::group_norm(x.to(at::kDouble), 2, one.to(at::kDouble), zero.to(at::kDouble), 1e-5, false);
    // Mean and offset are float32 numbers near 1000: each is off by up to 3e-5.
    check_close(found.to(at::kCPU).to(at::kDouble), exact, 0, 3e-4, "far from zero on " + place.name);
  }
}

BOOST_AUTO_TEST_CASE(a_constant_group_is_its_bias_and_has_finite_gradients) {
  for (const Place& place : places()) {
    const Pass pass =
        differentiate([](const Tensors& t) { return Tensors{kernels::group_norm(t[0], 2, t[1], t[2], false)}; },
                      {at::full({2, 4, 3, 3}, 7., at::kDouble), normals({4}, 1), at::arange(4, at::kDouble)},
                      at::kFloat, 99, place.device);
    check_close(pass.outputs[0], at::arange(4, at::kDouble).view({1, 4, 1, 1}).expand({2, 4, 3, 3}), 0, 1e-4, "bias");
    for (const at::Tensor& g : pass.gradients) BOOST_TEST(g.isfinite().all().item<bool>());
  }
}

BOOST_AUTO_TEST_CASE(silu_of_large_arguments_is_finite_and_right) {
  for (const Place& place : places()) {
    // Two values a group of one channel normalise to -+1, which the weight makes large.
    const at::Tensor x = at::tensor({-1.f, 1.f}).view({1, 1, 1, 2}).to(place.device);
    for (const float size : {1.f, 30.f, 90.f, 1000.f, 1e30f}) {
      const at::Tensor y =
          kernels::group_norm(x, 1, at::full({1}, size).to(place.device), at::zeros({1}).to(place.device), true, 0)
              .to(at::kCPU)
              .view(-1);
      const double s = static_cast<double>(size), expected = -s / (1 + std::exp(s));
      BOOST_TEST(std::abs(y[0].item<double>() - expected) <= 1e-5 * std::abs(expected) + 1e-7, place.name << " " << s);
      BOOST_TEST(y[1].item<double>() == s + expected, boost::test_tools::tolerance(1e-6));
    }
  }
}

BOOST_AUTO_TEST_CASE(samples_do_not_mix) {
  const Tensors in = subject(true).inputs({3, 6, 9, 5});
  const at::Tensor x = in[0].to(at::kFloat), w = in[1].to(at::kFloat), b = in[2].to(at::kFloat);
  const at::Tensor all = kernels::group_norm(x, 2, w, b, true);
  BOOST_TEST(at::equal(kernels::group_norm(x.narrow(0, 1, 1), 2, w, b, true), all.narrow(0, 1, 1)));
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  const at::Tensor x = at::zeros({1, 6, 3, 3}), w = at::ones({6});
  BOOST_CHECK_THROW(kernels::group_norm(x, 4, w, w, false), c10::Error);
  BOOST_CHECK_THROW(kernels::group_norm(x, 0, w, w, false), c10::Error);
  BOOST_CHECK_THROW(kernels::group_norm(x, 3, w.narrow(0, 0, 5), w, false), c10::Error);
  BOOST_CHECK_THROW(kernels::group_norm(x, 3, w, w.narrow(0, 0, 5), false), c10::Error);
  BOOST_CHECK_THROW(kernels::group_norm(x[0], 3, w, w, false), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
