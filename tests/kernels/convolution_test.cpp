// The 3 x 3 convolution by Winograd's algorithm against ATen's in float64.
#include "kernels/convolution.h"

#include "tests/kernels/fused_operator.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

struct Layer {
  std::int64_t n, in, out, h, w;
};
// Whole tiles, cut ones, more tiles than a block and than a sum of weights' gradients has; too few tiles, one pixel and
// channels that take ATen's path.
const std::vector<Layer> kLayers{{2, 16, 32, 8, 8},   {1, 32, 16, 13, 7},  {2, 48, 32, 3, 18}, {3, 16, 16, 1, 1},
                                 {1, 96, 96, 29, 34}, {2, 16, 16, 68, 70}, {2, 32, 4, 9, 9},   {1, 5, 16, 6, 6}};

Tensors operands(const Layer& l) {
  return {normals({l.n, l.in, l.h, l.w}, 1),
          normals({l.out, l.in, 3, 3}, 2) / std::sqrt(9 * static_cast<double>(l.in))};
}
/// Those, a bias (one a layer or one a sample), and another tensor to be added.
Tensors operands_of_sum(const Layer& l, bool enlarged, bool by_sample) {
  Tensors t = operands(l);
  const std::int64_t f = enlarged ? 2 : 1;
  t.push_back(by_sample ? normals({l.n, l.out}, 3) : normals({l.out}, 3));
  t.push_back(normals({l.n, l.out, f * l.h, f * l.w}, 4));
  return t;
}

const Operator kFused = [](const Tensors& t) { return Tensors{kernels::convolve_3x3(t[0], t[1])}; };
const Operator kReference = [](const Tensors& t) { return Tensors{kernels::reference::convolve_3x3(t[0], t[1])}; };

Operator sum(bool enlarged, bool fused) {
  return [=](const Tensors& t) {
    const kernels::Addition add{.bias = t[2], .other = t[3], .scale = 0.75, .other_scale = -1.25};
    return Tensors{enlarged ? (fused ? kernels::convolve_3x3_enlarged(t[0], t[1], add)
                                     : kernels::reference::convolve_3x3_enlarged(t[0], t[1], add))
                   : fused  ? kernels::convolve_3x3(t[0], t[1], add)
                            : kernels::reference::convolve_3x3(t[0], t[1], add)};
  };
}

double rms(const at::Tensor& x) { return x.square().mean().sqrt().item<double>(); }

/// In float32: results have unit variance; the transforms' factors, up to 8 * 8 on one side, make the largest error 25
/// times its rms of 2e-6. Gradients of weights and biases are sums over all pixels, and so are their errors. In
/// bfloat16 results are rounded to half a unit of eight bits; what is summed is not.
void check_pass(const Operator& fused, const Operator& reference, const Tensors& given, at::ScalarType type,
                const Place& place, const std::string& what) {
  Tensors inputs;
  for (const at::Tensor& x : given) inputs.push_back(x.to(type).to(at::kDouble));
  const Pass found = differentiate(fused, inputs, type, 99, place.device),
             exact = differentiate(reference, inputs, at::kDouble);
  // On other devices, and where ATen convolves, bfloat16 is rounded after each addition.
  const double relative = type == at::kFloat ? 1e-5 : 3 * rounding(type), absolute = type == at::kFloat ? 6e-5 : 0.02;
  check_close(found.outputs[0], exact.outputs[0], relative, absolute, what);
  for (std::size_t k = 0; k < inputs.size(); ++k)
    check_close(found.gradients[k], exact.gradients[k], relative, absolute * std::max(1., rms(exact.gradients[k])),
                what + ", gradient of input " + std::to_string(k));
}

std::string describe(const Layer& l, at::ScalarType type, const Place& place) {
  return std::to_string(l.in) + " to " + std::to_string(l.out) + " channels on " + std::to_string(l.h) + " x " +
         std::to_string(l.w) + " pixels in " + c10::toString(type) + " on " + place.name;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(convolution)

BOOST_AUTO_TEST_CASE(results_and_gradients_are_those_of_the_plain_convolution) {
  for (const Place& place : places())
    for (const at::ScalarType type : place.types)
      for (const Layer& l : kLayers) check_pass(kFused, kReference, operands(l), type, place, describe(l, type, place));
}

BOOST_AUTO_TEST_CASE(what_is_added_is_and_has_its_gradient) {
  for (const Place& place : places())
    for (const at::ScalarType type : place.types)
      for (const bool enlarged : {false, true})
        for (const bool by_sample : {false, true})
          for (const Layer& l : kLayers)
            check_pass(sum(enlarged, true), sum(enlarged, false), operands_of_sum(l, enlarged, by_sample), type, place,
                       describe(l, type, place) + (enlarged ? ", enlarged" : ""));
}

BOOST_AUTO_TEST_CASE(errors_are_a_few_roundings) {
  for (const Layer& l : {kLayers[4], kLayers[5]}) {
    Tensors inputs;
    for (const at::Tensor& x : operands(l)) inputs.push_back(x.to(at::kBFloat16).to(at::kDouble));
    const Pass exact = differentiate(kReference, inputs, at::kDouble);
    const auto worst = [&](const Pass& found) {
      return std::max({rms(found.outputs[0] - exact.outputs[0]) / rms(exact.outputs[0]),
                       rms(found.gradients[0] - exact.gradients[0]) / rms(exact.gradients[0]),
                       rms(found.gradients[1] - exact.gradients[1]) / rms(exact.gradients[1])});
    };
    BOOST_TEST(worst(differentiate(kFused, inputs, at::kFloat)) < 4e-6);
    // A number of eight bits is rounded by 2^-9 at most, by 0.0017 in the rms.
    BOOST_TEST(worst(differentiate(kFused, inputs, at::kBFloat16)) < 0.0018);
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

BOOST_AUTO_TEST_CASE(few_tiles_and_other_channels_take_atens_convolution) {
  for (const Layer& l : {kLayers[3], kLayers[6], kLayers[7]}) {
    const Tensors t = operands(l);
    const at::Tensor x = t[0].to(at::kBFloat16), w = t[1].to(at::kBFloat16);
    BOOST_TEST(!kernels::adds_while_convolving(x, w));
    BOOST_TEST(at::equal(kernels::convolve_3x3(x, w), at::conv2d(x, w, {}, 1, 1)));
  }
  BOOST_TEST(kernels::adds_while_convolving(operands(kLayers[0])[0].to(at::kFloat), operands(kLayers[0])[1]));
}

BOOST_AUTO_TEST_CASE(one_and_two_threads_give_equal_bits_whatever_the_layout) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const bool enlarged : {false, true})
      for (const Layer& l : {Layer{3, 64, 96, 40, 31}, Layer{1, 32, 32, 12, 12}}) {
        Tensors plain = operands_of_sum(l, enlarged, true), last;
        for (const at::Tensor& x : plain)
          last.push_back(x.dim() == 4 ? x.contiguous(at::MemoryFormat::ChannelsLast) : x);
        const auto with = [&](int n, const Tensors& inputs) {
          const Threads threads(n);
          return differentiate(sum(enlarged, true), inputs, type);
        };
        BOOST_TEST(same_bits(with(1, plain), with(2, last)));
      }
}

BOOST_AUTO_TEST_CASE(a_sample_does_not_see_its_batch) {
  const Tensors t = operands({5, 32, 32, 9, 14});
  const at::Tensor x = t[0].to(at::kFloat), w = t[1].to(at::kFloat), all = kernels::convolve_3x3(x, w);
  BOOST_TEST(at::equal(kernels::convolve_3x3(x.narrow(0, 3, 1), w), all.narrow(0, 3, 1)));
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  const at::Tensor x = at::zeros({1, 16, 5, 5}), w = at::zeros({16, 16, 3, 3});
  BOOST_CHECK_THROW(kernels::convolve_3x3(x, w.narrow(1, 0, 8)), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3(x, w.narrow(2, 0, 1)), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3(x, w.to(at::kBFloat16)), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3(x[0], w), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3(x, w, {.bias = at::zeros({15})}), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3(x, w, {.bias = at::zeros({2, 16})}), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3(x, w, {.other = at::zeros({1, 16, 5, 6})}), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3(x, w, {.other = at::zeros({1, 16, 5, 5}, at::kBFloat16)}), c10::Error);
  BOOST_CHECK_THROW(kernels::convolve_3x3_enlarged(x, w, {.other = at::zeros({1, 16, 5, 5})}), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
