// The fused pointwise operators (activation.h, join.h) against their reference compositions, forward and backward, in
// float32 and bfloat16.
#include "kernels/activation.h"

#include <cmath>

#include "kernels/join.h"
#include "tests/kernels/differentiation.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

struct Shape {
  std::int64_t n, c, h, w;
};
// Odd counts, one channel, one pixel, and one with more values than a thread's smallest piece.
const std::vector<Shape> kShapes{{2, 5, 3, 7}, {1, 33, 8, 8}, {3, 1, 5, 4}, {2, 7, 1, 1}, {2, 96, 17, 16}};

constexpr std::array<double, 3> kSum{0.7, -0.4, 0.6};

Tensors pair(std::pair<at::Tensor, at::Tensor> p) { return {p.first, p.second}; }

/// An operator with its twin, inputs of a shape, and what the activation is applied to (whose kinks at +-3 gradients
/// must avoid when the kernel keeps that argument in bfloat16).
struct Subject {
  const char* name;
  Operator fused, reference;
  std::function<Tensors(const Shape&)> inputs;
  std::function<at::Tensor(const Tensors&)> argument;
  double bf16_gradient;  ///< absolute tolerance of gradients in bfloat16
};

at::Tensor field(const Shape& s, std::uint64_t seed) { return 2 * normals({s.n, s.c, s.h, s.w}, seed); }

const std::vector<Subject>& subjects() {
  // Rounding of the result costs 2^-9 relative, everywhere. Where the backward pass reads a stored bfloat16 argument v,
  // the slope is off by up to |v| 2^-9 / 3 / 0.576, that is 0.0034 times the incoming gradient (4 at most here);
  // pixel_norm_act adds the error of a mean.
  static const std::vector<Subject> all{
      {"act", [](const Tensors& t) { return Tensors{kernels::act(t[0])}; },
       [](const Tensors& t) { return Tensors{kernels::reference::act(t[0])}; },
       [](const Shape& s) { return Tensors{field(s, 1)}; }, [](const Tensors& t) { return t[0]; }, 1e-6},
      {"scale_act", [](const Tensors& t) { return Tensors{kernels::scale_act(t[0], t[1])}; },
       [](const Tensors& t) { return Tensors{kernels::reference::scale_act(t[0], t[1])}; },
       [](const Shape& s) {
         return Tensors{field(s, 2), 1 + 0.3 * normals({s.n, s.c}, 3)};
       },
       [](const Tensors& t) { return t[0] * t[1].unsqueeze(-1).unsqueeze(-1); }, 2e-5},
      {"pixel_norm_act", [](const Tensors& t) { return pair(kernels::pixel_norm_act(t[0])); },
       [](const Tensors& t) { return pair(kernels::reference::pixel_norm_act(t[0])); },
       [](const Shape& s) { return Tensors{field(s, 4)}; },
       [](const Tensors& t) { return kernels::reference::pixel_norm_act(t[0]).first; }, 0.1},
      {"mp_sum", [](const Tensors& t) { return Tensors{kernels::mp_sum(t[0], t[1], 0.3)}; },
       [](const Tensors& t) { return Tensors{kernels::reference::mp_sum(t[0], t[1], 0.3)}; },
       [](const Shape& s) {
         return Tensors{field(s, 7), field(s, 8)};
       },
       nullptr, 1e-6},
      // The join's kernels take their argument in float32 from what they are given, so that no kink is hit.
      {"upsample_cat_act by 1", [](const Tensors& t) { return Tensors{kernels::upsample_cat_act(t[0], t[1])}; },
       [](const Tensors& t) { return Tensors{kernels::reference::upsample_cat_act(t[0], t[1])}; },
       [](const Shape& s) {
         return Tensors{field(s, 5), field({s.n, 2 * s.c + 1, s.h, s.w}, 6)};
       },
       nullptr, 1e-6},
      {"upsample_cat_act by 2", [](const Tensors& t) { return Tensors{kernels::upsample_cat_act(t[0], t[1])}; },
       [](const Tensors& t) { return Tensors{kernels::reference::upsample_cat_act(t[0], t[1])}; },
       [](const Shape& s) {
         return Tensors{field({s.n, s.c + 3, s.h, s.w}, 5), field({s.n, s.c, 2 * s.h, 2 * s.w}, 6)};
       },
       nullptr, 1e-6},
      {"upsample_sum by 1", [](const Tensors& t) { return Tensors{kernels::upsample_sum(t[0], t[1], t[2], kSum)}; },
       [](const Tensors& t) { return Tensors{kernels::reference::upsample_sum(t[0], t[1], t[2], kSum)}; },
       [](const Shape& s) {
         return Tensors{field(s, 14), field(s, 15), field(s, 16)};
       },
       nullptr, 1e-6},
      {"upsample_sum by 2", [](const Tensors& t) { return Tensors{kernels::upsample_sum(t[0], t[1], t[2], kSum)}; },
       [](const Tensors& t) { return Tensors{kernels::reference::upsample_sum(t[0], t[1], t[2], kSum)}; },
       [](const Shape& s) {
         const Shape fine{s.n, s.c, 2 * s.h, 2 * s.w};
         return Tensors{field(s, 14), field(fine, 15), field(fine, 16)};
       },
       nullptr, 1e-6}};
  return all;
}

/// scale_act takes its scales in float32 whatever the activations are.
Operator with_float_scales(const Operator& f, const char* name) {
  if (std::string(name) != "scale_act") return f;
  return [f](const Tensors& t) { return f({t[0], t[1].to(at::kFloat)}); };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(activation)

BOOST_AUTO_TEST_CASE(fused_operators_equal_their_references_in_float32) {
  for (const Subject& s : subjects())
    for (const Shape& shape : kShapes) {
      const std::string what = std::string(s.name) + " of " + std::to_string(shape.c) + " channels";
      Tensors inputs;
      for (const at::Tensor& x : s.inputs(shape)) inputs.push_back(x.to(at::kFloat).to(at::kDouble));
      const Pass fused = differentiate(s.fused, inputs, at::kFloat),
                 exact = differentiate(s.reference, inputs, at::kDouble);
      // A handful of float32 roundings of values below 10; gradients of scales sum up to 272 products.
      for (std::size_t k = 0; k < exact.outputs.size(); ++k)
        check_close(fused.outputs[k], exact.outputs[k], 2e-6, 2e-6, what + ", output");
      for (std::size_t k = 0; k < exact.gradients.size(); ++k)
        check_close(fused.gradients[k], exact.gradients[k], 1e-5,
                    k == 1 && std::string(s.name) == "scale_act" ? 1e-4 : 1e-5, what + ", gradient");
    }
}

BOOST_AUTO_TEST_CASE(fused_operators_equal_their_references_in_bfloat16) {
  for (const Subject& s : subjects())
    for (const Shape& shape : kShapes) {
      const std::string what = std::string(s.name) + " of " + std::to_string(shape.c) + " channels";
      Tensors inputs;
      for (const at::Tensor& x : s.inputs(shape)) inputs.push_back(x.to(at::kBFloat16).to(at::kDouble));
      // Products of bfloat16 numbers do hit +-3 itself, where the slope is a matter of taste and enters the gradients
      // of the scales.
      if (std::string(s.name) == "scale_act")
        inputs[0] = inputs[0] * ((s.argument(inputs).abs() - 3).abs() > 0.02).to(at::kDouble);
      const Pass fused = differentiate(with_float_scales(s.fused, s.name), inputs, at::kBFloat16),
                 exact = differentiate(s.reference, inputs, at::kDouble);
      for (std::size_t k = 0; k < exact.outputs.size(); ++k)
        check_close(fused.outputs[k], exact.outputs[k], 0.0040, 1e-6, what + ", output");
      at::Tensor keep = at::ones({shape.n, 1, shape.h, shape.w}, at::kDouble);
      if (s.argument) keep = ((s.argument(inputs).abs() - 3).abs() > 0.02).all(1, true).to(at::kDouble);
      if (shape.c < 50) BOOST_TEST(keep.mean().item<double>() > 0.3);  // few pixels are near a kink
      for (std::size_t k = 0; k < exact.gradients.size(); ++k) {
        const bool scales = exact.gradients[k].dim() == 2, masked = s.argument && !scales;
        check_close(masked ? fused.gradients[k] * keep : fused.gradients[k],
                    masked ? exact.gradients[k] * keep : exact.gradients[k], 0.0040, scales ? 1e-3 : s.bf16_gradient,
                    what + ", gradient");
      }
    }
}

BOOST_AUTO_TEST_CASE(references_have_the_gradients_of_finite_differences) {
  constexpr double h = 1e-5;
  for (const Subject& s : subjects()) {
    const Tensors inputs = s.inputs({1, 3, 2, 2});
    const Pass exact = differentiate(s.reference, inputs, at::kDouble);
    const auto total = [&](const Tensors& at) {
      double sum = 0;
      const Tensors out = s.reference(at);
      for (std::size_t k = 0; k < out.size(); ++k)
        sum += (out[k] * normals(out[k].sizes(), 900 + k).to(at::kBFloat16).to(at::kDouble)).sum().item<double>();
      return sum;
    };
    for (std::size_t k = 0; k < inputs.size(); ++k)
      for (std::int64_t i = 0; i < inputs[k].numel(); ++i) {
        Tensors up = inputs, down = inputs;
        up[k] = inputs[k].clone();
        down[k] = inputs[k].clone();
        up[k].view(-1)[i] += h;
        down[k].view(-1)[i] -= h;
        // Central differences: error h^2 times a third derivative, plus rounding 1e-16 / h.
        BOOST_TEST((total(up) - total(down)) / (2 * h) == exact.gradients[k].reshape(-1)[i].item<double>(),
                   boost::test_tools::tolerance(1e-6) << s.name);
      }
  }
}

BOOST_AUTO_TEST_CASE(one_and_two_threads_give_equal_bits) {
  for (const Subject& s : subjects())
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Tensors inputs = s.inputs({3, 40, 31, 17});
      const Operator f = with_float_scales(s.fused, s.name);
      const auto with = [&](int n) {
        const Threads threads(n);
        return differentiate(f, inputs, type);
      };
      BOOST_TEST(same_bits(with(1), with(2)), s.name);
    }
}

BOOST_AUTO_TEST_CASE(the_layout_of_the_input_does_not_matter) {
  for (const Subject& s : subjects()) {
    const Tensors inputs = s.inputs({2, 6, 4, 5});
    Tensors last, given;
    for (const at::Tensor& x : inputs) {
      last.push_back(x.dim() == 4 ? x.contiguous(at::MemoryFormat::ChannelsLast) : x);
      given.push_back(at::stack({x, -x}, -1).to(at::kFloat).select(-1, 0));  // every other value of a larger buffer
    }
    const Pass plain = differentiate(s.fused, inputs, at::kFloat);
    BOOST_TEST(same_bits(plain, differentiate(s.fused, last, at::kFloat)), s.name);
    const Tensors out = s.fused(given);
    for (std::size_t k = 0; k < out.size(); ++k)
      BOOST_TEST(at::equal(out[k].to(at::kDouble), plain.outputs[k]), s.name);
  }
}

BOOST_AUTO_TEST_CASE(an_output_that_is_not_used_counts_as_a_zero_gradient) {
  for (const Subject& s : subjects()) {
    const Tensors inputs = s.inputs({2, 5, 3, 3});
    const Pass fused = differentiate(s.fused, inputs, at::kFloat, 1),
               exact = differentiate(s.reference, inputs, at::kDouble, 1);
    for (std::size_t k = 0; k < exact.gradients.size(); ++k)
      check_close(fused.gradients[k], exact.gradients[k], 1e-5, 1e-5, s.name);
  }
}

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
  // Pixels that are not repeated once or twice, in both directions alike.
  for (const at::Tensor& fine : {at::zeros({1, 4, 2, 3}), at::zeros({1, 4, 6, 3}), at::zeros({1, 4, 7, 6}),
                                 at::zeros({1, 4, 9, 9}), at::zeros({2, 4, 6, 6}), a.to(at::kBFloat16)}) {
    BOOST_CHECK_THROW(kernels::upsample_cat_act(a, fine), c10::Error);
    BOOST_CHECK_THROW(kernels::upsample_sum(a, fine, fine, kSum), c10::Error);
  }
  BOOST_CHECK_THROW(kernels::upsample_sum(a, a, at::zeros({1, 4, 6, 6}), kSum), c10::Error);
  BOOST_CHECK_THROW(kernels::upsample_sum(a, at::zeros({1, 5, 3, 3}), at::zeros({1, 5, 3, 3}), kSum), c10::Error);
  BOOST_CHECK_THROW(kernels::scale_act(a, at::zeros({1, 3})), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
