// Attention: its values and gradients, whoever computes them, and that a kernel which a module registers is taken.
#include "kernels/attention.h"

#include <torch/library.h>

#include <cmath>

#include "tests/kernels/fused_operator.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

const std::vector<std::vector<std::int64_t>> kShapes4{{1, 1, 1, 1}, {2, 3, 7, 5}, {2, 1, 64, 32}, {1, 2, 130, 16}};

Tensors inputs(at::IntArrayRef shape) { return {2 * normals(shape, 1), normals(shape, 2), normals(shape, 3)}; }
Tensors chosen(const Tensors& t) { return {kernels::attention(t[0], t[1], t[2])}; }
Tensors written_out(const Tensors& t) { return {kernels::reference::attention(t[0], t[1], t[2])}; }

double largest_difference(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).abs().max() / expected.abs().max().clamp_min(1e-3)).item<double>();
}

/// Sums of the softmax run in float32; in a shorter type scores, shares and sums are each rounded.
double allowed(at::ScalarType type) { return type == at::kFloat ? 1e-5 : 4 * rounding(type); }

/// A module's kernel: the reference, told to count. It hands back numbers of the forward pass as a vendor's does.
struct Counts {
  int forward = 0, training = 0, backward = 0;
} counts;

std::tuple<at::Tensor, at::Tensor, at::Tensor, std::optional<at::Tensor>> counted(const at::Tensor& q,
                                                                                  const at::Tensor& k,
                                                                                  const at::Tensor& v, bool training) {
  ++counts.forward;
  counts.training += training;
  const at::Tensor out = kernels::reference::attention(q, k, v);
  if (!training) return {out, {}, {}, std::nullopt};
  return {out, at::full({1}, 2.0), at::full({1}, 3.0), std::nullopt};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> counted_backward(const at::Tensor& grad, const at::Tensor& q,
                                                                const at::Tensor& k, const at::Tensor& v,
                                                                const at::Tensor& out, const at::Tensor& m,
                                                                const at::Tensor& linv,
                                                                const std::optional<at::Tensor>& seed) {
  ++counts.backward;
  TORCH_CHECK(m.item<float>() == 2 && linv.item<float>() == 3 && !seed, "what the forward kernel left came back wrong");
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const at::Tensor share = at::softmax(at::matmul(q, k.transpose(2, 3)) * scale, -1);
  const at::Tensor row = (grad * out).sum(-1, true);
  const at::Tensor ds = share * (at::matmul(grad, v.transpose(2, 3)) - row) * scale;
  return {at::matmul(ds, k), at::matmul(ds.transpose(2, 3), q), at::matmul(share.transpose(2, 3), grad)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention)

BOOST_AUTO_TEST_CASE(values_and_gradients_are_those_of_double_precision) {
  for (const Place& place : places())
    for (const at::ScalarType type : place.types)
      for (const auto& shape : kShapes4) {
        Tensors given;
        for (const at::Tensor& x : inputs(shape)) given.push_back(x.to(type).to(at::kDouble));
        const Pass exact = differentiate(written_out, given, at::kDouble),
                   found = differentiate(chosen, given, type, 99, place.device);
        const std::string what = std::string(c10::toString(type)) + " on " + place.name;
        BOOST_TEST(largest_difference(found.outputs[0], exact.outputs[0]) <= allowed(type), what);
        for (std::size_t i = 0; i < 3; ++i)
          BOOST_TEST(largest_difference(found.gradients[i], exact.gradients[i]) <= 4 * allowed(type),
                     what << ", gradient " << i);
      }
}

BOOST_AUTO_TEST_CASE(the_reference_has_the_gradients_of_finite_differences) {
  check_references_by_finite_differences({{"attention", chosen, written_out, [](const Shape& s) {
                                             return Tensors{field(s, 1), field(s, 2), field(s, 3)};
                                           }}});
}

BOOST_AUTO_TEST_CASE(rows_are_averages_and_positions_have_no_order) {
  for (const Place& place : places()) {
    const Tensors t = inputs({2, 2, 33, 8});
    const auto on = [&](const at::Tensor& x) { return x.to(place.device, at::kFloat); };
    const auto host = [](const at::Tensor& x) { return x.to(at::kCPU).to(at::kDouble); };
    const at::Tensor q = on(t[0]), k = on(t[1]), v = on(t[2]);
    const at::Tensor y = host(kernels::attention(q, k, v));
    // Equal scores give the mean, and a constant stays.
    const at::Tensor mean = host(v).mean(2, true).expand(y.sizes());
    BOOST_TEST(largest_difference(host(kernels::attention(at::zeros_like(q), k, v)), mean) < 1e-5);
    BOOST_TEST((host(kernels::attention(q, k, at::ones_like(v))) - 1).abs().max().item<double>() < 1e-5);
    // Keys and their values may come in any order; queries bring their own places along.
    BOOST_TEST(largest_difference(host(kernels::attention(q, k.flip(2), v.flip(2))), y) < 1e-5);
    BOOST_TEST(largest_difference(host(kernels::attention(q.flip(2), k, v)), y.flip(2)) < 1e-5);
    // Parts of one tensor, as a network cuts them.
    const std::vector<at::Tensor> parts = at::cat({q, k, v}, -1).chunk(3, -1);
    BOOST_TEST(largest_difference(host(kernels::attention(parts[0], parts[1], parts[2])), y) < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(scores_too_large_for_an_exponential_are_no_trouble) {
  for (const Place& place : places()) {
    const at::Tensor q = at::full({1, 1, 2, 1}, 200.0).to(place.device, at::kFloat);
    const at::Tensor k = at::tensor({1.f, 2.f}).view({1, 1, 2, 1}).to(place.device);
    BOOST_TEST((kernels::attention(q, k, k) - 2).abs().max().item<float>() < 1e-6f);
  }
}

BOOST_AUTO_TEST_CASE(a_kernel_that_a_module_registers_is_taken) {
  torch::Library library(torch::Library::IMPL, "cirrus", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library.impl("attention", counted);
  library.impl("attention_backward", counted_backward);
  counts = {};
  const Tensors given = inputs({2, 3, 7, 5});
  const Pass exact = differentiate(written_out, given, at::kDouble), found = differentiate(chosen, given, at::kFloat);
  BOOST_TEST(largest_difference(found.outputs[0], exact.outputs[0]) < 1e-5);
  for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(largest_difference(found.gradients[i], exact.gradients[i]) < 1e-4);
  BOOST_TEST(counts.forward == 1);
  BOOST_TEST(counts.training == 1);
  BOOST_TEST(counts.backward == 1);
  // Where nothing is differentiated it is not told to keep anything.
  const at::Tensor x = given[0].to(at::kFloat).requires_grad_(true);
  const c10::NoGradGuard no_grad;
  kernels::attention(x, x, x);
  BOOST_TEST(counts.forward == 2);
  BOOST_TEST(counts.training == 1);
  // It is for the dtypes of kernels alone.
  kernels::attention(given[0], given[1], given[2]);
  BOOST_TEST(counts.forward == 2);
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  const at::Tensor x = at::zeros({2, 1, 4, 4});
  BOOST_CHECK_THROW(kernels::attention(x, x, at::zeros({2, 1, 4, 5})), c10::Error);
  BOOST_CHECK_THROW(kernels::attention(x, at::zeros({2, 1, 3, 4}), x), c10::Error);
  BOOST_CHECK_THROW(kernels::attention(x, x, x.to(at::kBFloat16)), c10::Error);
  BOOST_CHECK_THROW(kernels::attention(x[0], x[0], x[0]), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
