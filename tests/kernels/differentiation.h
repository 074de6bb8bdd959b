// Runs an operator forward and backward and compares what comes out, for the tests of the fused kernels: the oracle is
// the reference composition in float64, with the gradients autograd gives it.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>
#include <functional>
#include <vector>

#include "base/random.h"

namespace cirrus::test {

using Tensors = std::vector<at::Tensor>;
using Operator = std::function<Tensors(const Tensors&)>;

/// N(0, 1) that is the same on every machine.
inline at::Tensor normals(at::IntArrayRef shape, std::uint64_t seed) {
  Stream stream(Address(seed, Purpose::bootstrap));
  at::Tensor out = at::empty(shape, at::kDouble);
  double* p = out.data_ptr<double>();
  for (std::int64_t i = 0; i < out.numel(); ++i) p[i] = stream.normal();
  return out;
}

/// Outputs and the gradients of sum(output . weight) with fixed weights, all in float64.
struct Pass {
  Tensors outputs, gradients;
};

/// `used`: how many of the outputs the sum contains (all by default). Inputs and results are on the host.
inline Pass differentiate(const Operator& f, const Tensors& inputs, at::ScalarType type, std::size_t used = 99,
                          const at::Device& device = at::kCPU) {
  Tensors leaves;
  for (const at::Tensor& x : inputs)
    leaves.push_back(x.detach().to(device, type).clone(at::MemoryFormat::Preserve).requires_grad_(true));
  const Tensors outputs = f(leaves);
  Tensors seen, weights;
  for (std::size_t k = 0; k < std::min(used, outputs.size()); ++k) {
    seen.push_back(outputs[k]);
    // Rounded to bfloat16 first, so that every precision gets the same weights.
    weights.push_back(normals(outputs[k].sizes(), 900 + k).to(at::kBFloat16).to(device, outputs[k].scalar_type()));
  }
  Pass pass;
  for (const at::Tensor& y : outputs) pass.outputs.push_back(y.detach().to(at::kCPU).to(at::kDouble));
  for (const at::Tensor& g : torch::autograd::grad(seen, leaves, weights))
    pass.gradients.push_back(g.to(at::kCPU).to(at::kDouble));
  return pass;
}

/// Every element within relative * |expected| + absolute; says where it is worst otherwise.
inline void check_close(const at::Tensor& found, const at::Tensor& expected, double relative, double absolute,
                        const std::string& what) {
  BOOST_TEST_REQUIRE((found.sizes() == expected.sizes()), what << " has another shape");
  const double worst = ((found - expected).abs() - relative * expected.abs() - absolute).max().item<double>();
  BOOST_TEST(worst <= 0, what << " differs by " << worst << " more than allowed");
}

inline bool same_bits(const Pass& a, const Pass& b) {
  bool same = a.outputs.size() == b.outputs.size() && a.gradients.size() == b.gradients.size();
  for (std::size_t i = 0; same && i < a.outputs.size(); ++i) same = at::equal(a.outputs[i], b.outputs[i]);
  for (std::size_t i = 0; same && i < a.gradients.size(); ++i) same = at::equal(a.gradients[i], b.gradients[i]);
  return same;
}

/// Restores the number of threads.
class Threads {
public:
  explicit Threads(int n) : before_(at::get_num_threads()) { at::set_num_threads(n); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

private:
  int before_;
};

}  // namespace cirrus::test
