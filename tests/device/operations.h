// Operations that the networks and the optimizer use, and their gradients, on any device against ATen on the CPU in
// double precision.
#pragma once

#include <boost/test/unit_test.hpp>

#include "device/device.h"

namespace cirrus::test {

/// What is rounded on the device: values to the type, sums of up to a thousand terms in float32 or better. Convolutions
/// and products may run in a tensor core's type (TF32 has 10 bits) where the vendor's default allows it.
struct Tolerance {
  double plain, product;
};

inline Tolerance tolerance(at::ScalarType type, const at::Device& device) {
  if (type == at::kBFloat16) return {0.02, 0.02};
  if (type == at::kHalf) return {0.003, 0.003};
  return {2e-5, device.is_cuda() ? 2e-3 : 2e-5};
}

using Inputs = std::vector<at::Tensor>;

struct Operation {
  std::string name;
  std::vector<std::vector<std::int64_t>> shapes;
  std::function<at::Tensor(const Inputs&)> run;
  bool product = false;
};

inline std::vector<Operation> operations() {
  const std::vector<std::int64_t> image{2, 4, 6, 8};
  return {
      {"conv2d 3x3",
       {image, {5, 4, 3, 3}, {5}},
       [](const Inputs& i) { return at::conv2d(i[0], i[1], i[2], 1, 1); },
       true},
      {"conv2d 1x1", {image, {3, 4, 1, 1}}, [](const Inputs& i) { return at::conv2d(i[0], i[1]); }, true},
      {"conv2d stride 2",
       {image, {5, 4, 3, 3}},
       [](const Inputs& i) { return at::conv2d(i[0], i[1], {}, 2, 1); },
       true},
      {"conv2d grouped",
       {image, {4, 1, 3, 3}},
       [](const Inputs& i) { return at::conv2d(i[0], i[1], {}, 1, 1, 1, 4); },
       true},
      {"conv2d of channels-last",
       {image, {5, 4, 3, 3}},
       [](const Inputs& i) { return at::conv2d(i[0].contiguous(at::MemoryFormat::ChannelsLast), i[1], {}, 1, 1); },
       true},
      {"matmul", {{3, 7}, {7, 5}}, [](const Inputs& i) { return at::matmul(i[0], i[1]); }, true},
      {"batched matmul", {{2, 3, 7}, {2, 7, 5}}, [](const Inputs& i) { return at::matmul(i[0], i[1]); }, true},
      {"linear", {{3, 7}, {5, 7}, {5}}, [](const Inputs& i) { return at::linear(i[0], i[1], i[2]); }, true},
      {"attention",
       {{2, 6, 4}, {2, 6, 4}, {2, 6, 4}},
       [](const Inputs& i) { return at::matmul(at::softmax(at::matmul(i[0], i[1].transpose(1, 2)), -1), i[2]); },
       true},
      {"group_norm", {image, {4}, {4}}, [](const Inputs& i) { return at::group_norm(i[0], 2, i[1], i[2], 1e-5); }},
      {"silu", {image}, [](const Inputs& i) { return at::silu(i[0]); }},
      {"hardswish", {image}, [](const Inputs& i) { return at::hardswish(5 * i[0]); }},
      {"softmax", {{3, 9}}, [](const Inputs& i) { return at::softmax(i[0], 1); }},
      {"avg_pool2d", {image}, [](const Inputs& i) { return at::avg_pool2d(i[0], 2); }},
      {"upsample_nearest2d",
       {image},
       [](const Inputs& i) {
         return at::upsample_nearest2d(i[0], {12, 16});
       }},
      {"cat",
       {image, {2, 3, 6, 8}},
       [](const Inputs& i) {
         return at::cat({i[0], i[1]}, 1);
       }},
      {"pixel_unshuffle", {image}, [](const Inputs& i) { return at::pixel_unshuffle(i[0], 2); }},
      {"pixel_shuffle", {image}, [](const Inputs& i) { return at::pixel_shuffle(i[0], 2); }},
      {"arithmetic with broadcasting",
       {image, {4, 1, 1}},
       [](const Inputs& i) { return (i[0] * i[1] + 2) / (3 + i[1].square()) - i[0]; }},
      {"elementary functions",
       {image},
       [](const Inputs& i) { return i[0].exp() + (i[0].square() + 1).log() + i[0].sin() * (i[0].abs() + 1).rsqrt(); }},
      {"choice",
       {image},
       [](const Inputs& i) { return at::where(i[0] > 0, i[0], 0.1 * i[0]) + i[0].clamp(-0.5, 0.5); }},
      {"sum and mean",
       {image},
       [](const Inputs& i) {
         return i[0].sum({2, 3}) + i[0].mean({0}, true).mean({2, 3});
       }},
      {"norm", {image}, [](const Inputs& i) { return i[0].square().sum().add(1e-3).sqrt(); }},
      {"largest",
       {image},
       [](const Inputs& i) {
         return i[0].amax({2, 3});
       }},
      {"views",
       {image},
       [](const Inputs& i) {
         return i[0].narrow(2, 1, 3).permute({0, 2, 3, 1}).flatten(0, 1).select(2, 1).t();
       }},
      {"write into a view",
       {image},
       [](const Inputs& i) {
         at::Tensor x = i[0] * 1;
         x.narrow(3, 2, 4).mul_(3).select(1, 0).add_(1);
         return x;
       }},
      {"expand and repeat",
       {{4, 1}},
       [](const Inputs& i) {
         return i[0].expand({4, 5}) * i[0].repeat({1, 5});
       }},
  };
}

/// Whole numbers would hide rounding; these are fixed, spread over (-1, 1), and alike on every machine.
inline at::Tensor values(at::IntArrayRef shape, double phase) {
  at::Tensor t = at::empty(shape, at::kDouble);
  double* x = t.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < t.numel(); ++i) x[i] = std::sin(phase + 0.7 * static_cast<double>(i * i % 97));
  return t;
}

/// Largest difference relative to the largest reference value.
inline double relative_difference(const at::Tensor& on_device, const at::Tensor& reference) {
  const at::Tensor host = on_device.detach().to(at::kCPU).to(at::kDouble);
  BOOST_TEST_REQUIRE(host.sizes() == reference.sizes());
  return ((host - reference.detach()).abs().max() / reference.detach().abs().max().clamp_min(1e-30)).item<double>();
}

inline void check_operations(device::Device& d, at::ScalarType type) {
  const Tolerance allowed = tolerance(type, d.torch_device());
  for (const Operation& operation : operations()) {
    Inputs exact, tested;
    for (std::size_t i = 0; i < operation.shapes.size(); ++i) {
      const at::Tensor x = values(operation.shapes[i], 1 + static_cast<double>(i)).to(type);
      exact.push_back(x.to(at::kDouble).requires_grad_(true));
      tested.push_back(x.to(d.torch_device()).requires_grad_(true));
    }
    const at::Tensor expected = operation.run(exact), result = operation.run(tested);
    const at::Tensor weight = values(expected.sizes(), 9).to(type);
    (expected * weight.to(at::kDouble)).sum().backward();
    (result * weight.to(d.torch_device())).sum().backward();
    d.end_step();
    const double limit = operation.product ? allowed.product : allowed.plain;
    const double error = relative_difference(result, expected);
    BOOST_TEST(error <= limit, operation.name << " in " << c10::toString(type) << ": off by " << error);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double off = relative_difference(tested[i].grad(), exact[i].grad());
      BOOST_TEST(off <= 2 * limit,
                 operation.name << " in " << c10::toString(type) << ": gradient " << i << " is off by " << off);
    }
  }
}

/// The optimizer's operations on lists, in place.
inline void check_lists(device::Device& d) {
  std::vector<at::Tensor> w, g, dw, dg;
  for (const std::int64_t n : {5, 12, 1}) {
    w.push_back(values({n}, 1));
    g.push_back(values({n}, 2));
    dw.push_back(w.back().to(at::kFloat).to(d.torch_device()));
    dg.push_back(g.back().to(at::kFloat).to(d.torch_device()));
  }
  const auto work = [](std::vector<at::Tensor>& a, std::vector<at::Tensor>& b) {
    at::_foreach_mul_(a, 0.9);
    at::_foreach_add_(a, b, 0.3);
    at::_foreach_addcmul_(a, b, b, -0.2);
    at::_foreach_lerp_(a, b, 0.25);
    at::_foreach_sqrt_(b = at::_foreach_abs(b));
    return at::stack(at::_foreach_norm(a, 2)).norm();
  };
  const at::Tensor expected = work(w, g), result = work(dw, dg);
  d.end_step();
  BOOST_TEST(relative_difference(result, expected) <= 2e-5);
  for (std::size_t i = 0; i < w.size(); ++i) {
    BOOST_TEST(relative_difference(dw[i], w[i]) <= 2e-5);
    BOOST_TEST(relative_difference(dg[i], g[i]) <= 2e-5);
  }
}

/// Copies keep every value, whatever the strides of either side.
inline void check_copies(device::Device& d) {
  const at::Tensor x = values({2, 3, 4, 5}, 3).to(at::kFloat), on_device = x.to(d.torch_device());
  const auto same = [&](const at::Tensor& tested, const at::Tensor& expected) {
    d.end_step();
    BOOST_TEST(at::equal(tested.to(at::kCPU), expected));
  };
  same(on_device, x);
  same(on_device.permute({0, 2, 3, 1}), x.permute({0, 2, 3, 1}));
  same(x.permute({3, 0, 1, 2}).to(d.torch_device()), x.permute({3, 0, 1, 2}));
  same(on_device.contiguous(at::MemoryFormat::ChannelsLast), x);
  at::Tensor target = at::zeros({2, 3, 4, 10}, at::TensorOptions(d.torch_device())), host = at::zeros({2, 3, 4, 10});
  target.slice(3, 1, 10, 2).copy_(x);
  host.slice(3, 1, 10, 2).copy_(x);
  same(target, host);
  at::Tensor back = at::zeros({2, 5, 4, 3});
  back.transpose(1, 3).copy_(on_device);
  BOOST_TEST(at::equal(back.transpose(1, 3), x));
  same(on_device.to(at::kBFloat16).to(at::kFloat), x.to(at::kBFloat16).to(at::kFloat));
}

/// Gradients of two backward passes add up in the leaf.
inline void check_accumulation(device::Device& d) {
  at::Tensor w = values({4}, 1).to(at::kFloat).to(d.torch_device()).requires_grad_(true);
  for (int i = 0; i < 2; ++i) {
    (w.square() * 3).sum().backward();
    d.end_step();
  }
  BOOST_TEST(relative_difference(w.grad(), 12 * w.detach().to(at::kCPU).to(at::kDouble)) <= 1e-6);
}

}  // namespace cirrus::test
