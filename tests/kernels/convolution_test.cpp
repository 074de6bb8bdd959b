// The 3 x 3 convolution by Winograd's algorithm against ATen's in float64.
#include "kernels/convolution.h"

#include "tests/kernels/fused_operator.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

struct Layer {
  std::int64_t n, in, out, h, w;
};
// Whole tiles, cut ones, less than one, one pixel; more tiles than a block has; channels that take ATen's path.
const std::vector<Layer> kLayers{{2, 16, 32, 8, 8},   {1, 32, 16, 13, 7}, {2, 48, 32, 3, 18}, {3, 16, 16, 1, 1},
                                 {1, 96, 96, 29, 34}, {2, 32, 4, 9, 9},   {1, 5, 16, 6, 6}};

Tensors operands(const Layer& l) {
  return {normals({l.n, l.in, l.h, l.w}, 1),
          normals({l.out, l.in, 3, 3}, 2) / std::sqrt(9 * static_cast<double>(l.in))};
}
const Operator kFused = [](const Tensors& t) { return Tensors{kernels::convolve_3x3(t[0], t[1])}; };
const Operator kReference = [](const Tensors& t) { return Tensors{kernels::reference::convolve_3x3(t[0], t[1])}; };

}  // namespace

BOOST_AUTO_TEST_SUITE(convolution)

BOOST_AUTO_TEST_CASE(results_and_gradients_are_those_of_the_plain_convolution) {
  for (const Place& place : places())
    for (const Layer& l : kLayers) {
      Tensors inputs;
      for (const at::Tensor& x : operands(l)) inputs.push_back(x.to(at::kFloat).to(at::kDouble));
      const Pass fused = differentiate(kFused, inputs, at::kFloat, 99, place.device),
                 exact = differentiate(kReference, inputs, at::kDouble);
      const std::string what = std::to_string(l.in) + " to " + std::to_string(l.out) + " channels on " + place.name;
      // Results have unit variance; the transforms' factors, up to 8 * 8 on one side, make the largest error 25 times
      // its rms of 2e-6.
      check_close(fused.outputs[0], exact.outputs[0], 1e-5, 6e-5, what);
      check_close(fused.gradients[0], exact.gradients[0], 1e-5, 6e-5, what + ", gradient of the input");
      check_close(fused.gradients[1], exact.gradients[1], 1e-5, 1e-4, what + ", gradient of the weights");
      const double rms = (fused.outputs[0] - exact.outputs[0]).square().mean().sqrt().item<double>();
      BOOST_TEST(rms < 4e-6, what << ": rms error " << rms);
    }
}

BOOST_AUTO_TEST_CASE(a_single_weight_shifts_the_image) {
  const at::Tensor x = normals({1, 16, 10, 11}, 3).to(at::kFloat);
  for (std::int64_t dy = 0; dy < 3; ++dy)
    for (std::int64_t dx = 0; dx < 3; ++dx) {
      at::Tensor w = at::zeros({16, 16, 3, 3});
      for (std::int64_t c = 0; c < 16; ++c) w[c][(c + 5) % 16][dy][dx] = 1;
      const at::Tensor shifted = at::constant_pad_nd(x.roll(-5, 1), {1, 1, 1, 1}).narrow(2, dy, 10).narrow(3, dx, 11);
      check_close(kernels::convolve_3x3(x, w).to(at::kDouble), shifted.to(at::kDouble), 1e-5, 3e-5, "shift");
    }
}

BOOST_AUTO_TEST_CASE(shorter_dtypes_take_atens_convolution) {
  const Tensors t = operands(kLayers[0]);
  const at::Tensor x = t[0].to(at::kBFloat16), w = t[1].to(at::kBFloat16);
  BOOST_TEST(at::equal(kernels::convolve_3x3(x, w), at::conv2d(x, w, {}, 1, 1)));
}

BOOST_AUTO_TEST_CASE(one_and_two_threads_give_equal_bits_whatever_the_layout) {
  for (const Layer& l : {Layer{3, 64, 96, 40, 31}, Layer{1, 32, 32, 12, 12}}) {
    Tensors plain = operands(l), last;
    for (const at::Tensor& x : plain) last.push_back(x.contiguous(at::MemoryFormat::ChannelsLast));
    const auto with = [&](int n, const Tensors& inputs) {
      const Threads threads(n);
      return differentiate(kFused, inputs, at::kFloat);
    };
    const Pass one = with(1, plain), two = with(2, last);
    BOOST_TEST(at::equal(one.outputs[0], two.outputs[0]));
    BOOST_TEST(at::equal(one.gradients[0], two.gradients[0]));
    // The weights' gradient is ATen's, whose sums depend on the threads.
    check_close(one.gradients[1], two.gradients[1], 1e-5, 1e-4, "gradient of the weights");
  }
}

BOOST_AUTO_TEST_CASE(a_sample_does_not_see_its_batch) {
  const Tensors t = operands({5, 32, 32, 9, 14});
  const at::Tensor x = t[0].to(at::kFloat), w = t[1].to(at::kFloat), all = kernels::convolve_3x3(x, w);
  check_close(kernels::convolve_3x3(x.narrow(0, 3, 1), w).to(at::kDouble), all.narrow(0, 3, 1).to(at::kDouble), 1e-6,
              1e-6, "alone");
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  const at::Tensor x = at::zeros({1, 16, 5, 5}), w = at::zeros({16, 16, 3, 3});
  BOOST_CHECK_THROW(kernels::convolve_3x3(x, w.narrow(1, 0, 8)), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3(x, w.narrow(2, 0, 1)), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3(x, w.to(at::kBFloat16)), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3(x[0], w), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
