// The decoder's join (join.h) against its reference compositions.
#include "kernels/join.h"

#include "tests/kernels/fused_operator.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

constexpr std::array<double, 3> kSum{0.7, -0.4, 0.6};

const std::vector<Subject>& subjects() {
  // The kernels take their argument in float32 from what they are given, so that no kink is hit.
  static const std::vector<Subject> all{
      {"upsample_cat_act by 1", [](const Tensors& t) { return Tensors{kernels::upsample_cat_act(t[0], t[1])}; },
       [](const Tensors& t) { return Tensors{kernels::reference::upsample_cat_act(t[0], t[1])}; },
       [](const Shape& s) {
         return Tensors{field(s, 5), field({s.n, 2 * s.c + 1, s.h, s.w}, 6)};
       }},
      {"upsample_cat_act by 2", [](const Tensors& t) { return Tensors{kernels::upsample_cat_act(t[0], t[1])}; },
       [](const Tensors& t) { return Tensors{kernels::reference::upsample_cat_act(t[0], t[1])}; },
       [](const Shape& s) {
         return Tensors{field({s.n, s.c + 3, s.h, s.w}, 5), field({s.n, s.c, 2 * s.h, 2 * s.w}, 6)};
       }},
      {"upsample_sum by 1", [](const Tensors& t) { return Tensors{kernels::upsample_sum(t[0], t[1], t[2], kSum)}; },
       [](const Tensors& t) { return Tensors{kernels::reference::upsample_sum(t[0], t[1], t[2], kSum)}; },
       [](const Shape& s) {
         return Tensors{field(s, 14), field(s, 15), field(s, 16)};
       }},
      {"upsample_sum by 2", [](const Tensors& t) { return Tensors{kernels::upsample_sum(t[0], t[1], t[2], kSum)}; },
       [](const Tensors& t) { return Tensors{kernels::reference::upsample_sum(t[0], t[1], t[2], kSum)}; },
       [](const Shape& s) {
         const Shape fine{s.n, s.c, 2 * s.h, 2 * s.w};
         return Tensors{field(s, 14), field(fine, 15), field(fine, 16)};
       }}};
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(join)

BOOST_AUTO_TEST_CASE(fused_operators_equal_their_references) { check_everywhere(subjects()); }

BOOST_AUTO_TEST_CASE(references_have_the_gradients_of_finite_differences) {
  check_references_by_finite_differences(subjects());
}

BOOST_AUTO_TEST_CASE(one_and_two_threads_give_equal_bits) { check_threads(subjects()); }

BOOST_AUTO_TEST_CASE(the_layout_of_the_input_does_not_matter) { check_layouts(subjects()); }

BOOST_AUTO_TEST_CASE(an_output_that_is_not_used_counts_as_a_zero_gradient) { check_unused_outputs(subjects()); }

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  const at::Tensor a = at::zeros({1, 4, 3, 3});
  // Pixels that are not repeated once or twice, in both directions alike.
  for (const at::Tensor& fine : {at::zeros({1, 4, 2, 3}), at::zeros({1, 4, 6, 3}), at::zeros({1, 4, 7, 6}),
                                 at::zeros({1, 4, 9, 9}), at::zeros({2, 4, 6, 6}), a.to(at::kBFloat16)}) {
    BOOST_CHECK_THROW(kernels::upsample_cat_act(a, fine), c10::Error);
    BOOST_CHECK_THROW(kernels::upsample_sum(a, fine, fine, kSum), c10::Error);
  }
  BOOST_CHECK_THROW(kernels::upsample_sum(a, a, at::zeros({1, 4, 6, 6}), kSum), c10::Error);
  BOOST_CHECK_THROW(kernels::upsample_sum(a, at::zeros({1, 5, 3, 3}), at::zeros({1, 5, 3, 3}), kSum), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
