// The phases of a convolution of repeated pixels: their weights give what the convolution gives, and their join equals
// its reference.
#include "kernels/phase_join.h"

#include "kernels/activation.h"
#include "tests/kernels/fused_operator.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all{
      {"phase_sum_scale_act", [](const Tensors& t) { return Tensors{kernels::phase_sum_scale_act(t[0], t[1], t[2])}; },
       [](const Tensors& t) { return Tensors{kernels::reference::phase_sum_scale_act(t[0], t[1], t[2])}; },
       [](const Shape& s) {
         return Tensors{field({s.n, 4 * s.c, s.h + 1, s.w + 1}, 31), field({s.n, s.c, 2 * s.h, 2 * s.w}, 32),
                        0.5 * normals({s.n, s.c}, 33)};
       }}};
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(phase_join)

BOOST_AUTO_TEST_CASE(references_have_the_gradients_of_finite_differences) {
  check_references_by_finite_differences(subjects());
}

BOOST_AUTO_TEST_CASE(one_and_two_threads_give_equal_bits) { check_threads(subjects()); }

BOOST_AUTO_TEST_CASE(the_layout_of_the_input_does_not_matter) { check_layouts(subjects()); }

BOOST_AUTO_TEST_CASE(it_equals_its_reference_in_float32) {
  for (const Shape& shape : kShapes) check_against_reference(subjects()[0], shape, places()[0], at::kFloat);
}

BOOST_AUTO_TEST_CASE(phases_give_what_a_convolution_of_repeated_pixels_gives) {
  for (const auto& [c, h, w] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 2, 5}, {5, 7, 4}}) {
    const at::Tensor x = normals({2, c, h, w}, 1).to(at::kFloat).requires_grad_(true),
                     k = normals({6, c, 3, 3}, 2).to(at::kFloat).requires_grad_(true);
    const at::Tensor fine = normals({2, 6, 2 * h, 2 * w}, 3).to(at::kFloat), scale = normals({2, 6}, 4).to(at::kFloat);
    const at::Tensor found =
        kernels::phase_sum_scale_act(at::conv2d(x, kernels::phase_weights(k, at::kFloat), {}, 1, 1), fine, scale);
    const at::Tensor large = x.repeat_interleave(2, 2).repeat_interleave(2, 3);
    const at::Tensor expected = kernels::reference::scale_act(at::conv2d(large, k, {}, 1, 1) + fine, scale);
    // Sums of up to 45 products in another order.
    check_close(found.to(at::kDouble), expected.to(at::kDouble), 1e-5, 1e-5, "output");
    const auto a = torch::autograd::grad({found}, {x, k}, {fine}),
               b = torch::autograd::grad({expected}, {x, k}, {fine});
    for (std::size_t i = 0; i < 2; ++i) check_close(a[i].to(at::kDouble), b[i].to(at::kDouble), 1e-4, 1e-4, "gradient");
  }
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  const at::Tensor phases = at::zeros({1, 8, 3, 4}), fine = at::zeros({1, 2, 4, 6}), scale = at::zeros({1, 2});
  BOOST_CHECK_NO_THROW(kernels::phase_sum_scale_act(phases, fine, scale));
  BOOST_CHECK_THROW(kernels::phase_sum_scale_act(phases, at::zeros({1, 2, 6, 6}), scale), c10::Error);
  BOOST_CHECK_THROW(kernels::phase_sum_scale_act(phases, at::zeros({1, 3, 4, 6}), scale), c10::Error);
  BOOST_CHECK_THROW(kernels::phase_sum_scale_act(phases, fine.to(at::kBFloat16), scale), c10::Error);
  BOOST_CHECK_THROW(kernels::phase_sum_scale_act(phases, fine, at::zeros({2, 2})), c10::Error);
  BOOST_CHECK_THROW(kernels::phase_weights(at::zeros({2, 2, 5, 5}), at::kFloat), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
