// What every fused network operator is tested for, whichever it is: equal to its reference composition forward and
// backward, on every device and in every dtype there is a kernel for; whatever the threads and the layout of its
// inputs.
#pragma once

#include <string>

#include "tests/kernels/devices.h"
#include "tests/kernels/differentiation.h"

namespace cirrus::test {

struct Shape {
  std::int64_t n, c, h, w;
};
/// Odd counts, one channel, one pixel, and one with more values than a thread's smallest piece.
inline const std::vector<Shape> kShapes{{2, 5, 3, 7}, {1, 33, 8, 8}, {3, 1, 5, 4}, {2, 7, 1, 1}, {2, 96, 17, 16}};

inline at::Tensor field(const Shape& s, std::uint64_t seed) { return 2 * normals({s.n, s.c, s.h, s.w}, seed); }

/// An operator with its twin and its inputs of a shape. Inputs that are not [N, C, H, W] are scales: the operator gets
/// them in float32 whatever the activations are.
struct Subject {
  std::string name;
  Operator fused, reference;
  std::function<Tensors(const Shape&)> inputs;
  double bf16_gradient = 1e-6;  ///< absolute tolerance of activations' gradients in bfloat16
  /// What an activation with kinks at +-3 is applied to, if the kernel keeps that in the shorter dtype: gradients near
  /// the kinks are then not compared.
  std::function<at::Tensor(const Tensors&)> kinked{};
  double output = 2e-6, scale_gradient = 1e-4;  ///< absolute tolerances of those in float32
};

inline Operator with_float_scales(const Operator& f) {
  return [f](const Tensors& t) {
    Tensors inputs;
    for (const at::Tensor& x : t) inputs.push_back(x.dim() == 4 ? x : x.to(at::kFloat));
    return f(inputs);
  };
}

inline void check_against_reference(const Subject& s, const Shape& shape, const Place& place, at::ScalarType type) {
  const std::string what = s.name + " of " + std::to_string(shape.c) + " channels in " +
                           std::string(c10::toString(type)) + " on " + place.name;
  Tensors inputs;
  for (const at::Tensor& x : s.inputs(shape)) inputs.push_back(x.to(type).to(at::kDouble));
  const bool single = type == at::kFloat;
  at::Tensor keep = at::ones({shape.n, 1, shape.h, shape.w}, at::kDouble);
  if (s.kinked && !single) {
    const auto far = [](const at::Tensor& v) { return (v.abs() - 3).abs() > 0.02; };
    // Products of short numbers do hit +-3 itself, where the slope is a matter of taste and enters the scales'
    // gradients.
    if (inputs.size() > 1) inputs[0] = inputs[0] * far(s.kinked(inputs)).to(at::kDouble);
    keep = far(s.kinked(inputs)).all(1, true).to(at::kDouble);
    if (shape.c < 50) BOOST_TEST(keep.mean().item<double>() > 0.3);  // few pixels are near a kink
  }
  const Pass fused = differentiate(with_float_scales(s.fused), inputs, type, 99, place.device),
             exact = differentiate(s.reference, inputs, at::kDouble);
  for (std::size_t k = 0; k < exact.outputs.size(); ++k)
    check_close(fused.outputs[k], exact.outputs[k], rounding(type), s.output, what + ", output");
  const double shorter = type == at::kHalf ? 0.125 : 1;  // three bits more than bfloat16
  for (std::size_t k = 0; k < exact.gradients.size(); ++k) {
    const bool scale = exact.gradients[k].dim() != 4, masked = s.kinked && !single && !scale;
    const double absolute = scale    ? (single ? s.scale_gradient : 10 * s.scale_gradient)
                            : single ? 1e-5
                                     : std::max(1e-6, shorter * s.bf16_gradient);
    check_close(masked ? fused.gradients[k] * keep : fused.gradients[k],
                masked ? exact.gradients[k] * keep : exact.gradients[k], single ? 1e-5 : rounding(type), absolute,
                what + ", gradient of input " + std::to_string(k));
  }
}

inline void check_everywhere(const std::vector<Subject>& subjects) {
  for (const Place& place : places())
    for (const at::ScalarType type : place.types)
      for (const Subject& s : subjects)
        for (const Shape& shape : kShapes) check_against_reference(s, shape, place, type);
}

inline void check_references_by_finite_differences(const std::vector<Subject>& subjects) {
  constexpr double h = 1e-5;
  for (const Subject& s : subjects) {
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
        const double found = (total(up) - total(down)) / (2 * h),
                     expected = exact.gradients[k].reshape(-1)[i].item<double>();
        BOOST_TEST(std::abs(found - expected) < 1e-6 * std::abs(expected) + 1e-9,
                   s.name << ": " << found << " and " << expected);
      }
  }
}

inline void check_threads(const std::vector<Subject>& subjects) {
  for (const Subject& s : subjects)
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
      for (const Shape& shape : {Shape{3, 40, 31, 17}, Shape{1, 40, 61, 47}}) {  // more and less samples than threads
        const Tensors inputs = s.inputs(shape);
        const auto with = [&](int n) {
          const Threads threads(n);
          return differentiate(with_float_scales(s.fused), inputs, type);
        };
        BOOST_TEST(same_bits(with(1), with(2)), s.name);
      }
}

inline void check_layouts(const std::vector<Subject>& subjects) {
  for (const Place& place : places())
    for (const Subject& s : subjects) {
      const Tensors inputs = s.inputs({2, 6, 4, 5});
      Tensors last, given;
      for (const at::Tensor& x : inputs) {
        last.push_back(x.dim() == 4 ? x.contiguous(at::MemoryFormat::ChannelsLast) : x);
        // Every other value of a larger buffer.
        given.push_back(at::stack({x, -x}, -1).to(place.device, at::kFloat).select(-1, 0));
      }
      const Pass plain = differentiate(s.fused, inputs, at::kFloat, 99, place.device);
      BOOST_TEST(same_bits(plain, differentiate(s.fused, last, at::kFloat, 99, place.device)), s.name);
      const Tensors out = s.fused(given);
      for (std::size_t k = 0; k < out.size(); ++k)
        BOOST_TEST(at::equal(out[k].to(at::kCPU).to(at::kDouble), plain.outputs[k]), s.name);
    }
}

inline void check_unused_outputs(const std::vector<Subject>& subjects) {
  for (const Place& place : places())
    for (const Subject& s : subjects) {
      const Tensors inputs = s.inputs({2, 5, 3, 3});
      const Pass fused = differentiate(s.fused, inputs, at::kFloat, 1, place.device),
                 exact = differentiate(s.reference, inputs, at::kDouble, 1);
      for (std::size_t k = 0; k < exact.gradients.size(); ++k)
        check_close(fused.gradients[k], exact.gradients[k], 1e-5, 1e-5, s.name);
    }
}

}  // namespace cirrus::test
