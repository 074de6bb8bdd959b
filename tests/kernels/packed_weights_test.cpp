// Convolutions with weights that were packed give what they give without, and never those of weights that are gone.
#include "kernels/packed_weights.h"

#include <c10/core/GradMode.h>

#include "kernels/convolution.h"
#include "tests/kernels/fused_operator.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

at::Tensor channels_last(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

/// All convolutions of networks: Winograd's, enlarged, too small for it, of odd channels, 1 x 1, strided, of a slice.
std::vector<at::Tensor> convolve_all(const at::Tensor& x, const std::vector<at::Tensor>& w) {
  const at::Tensor small = x.narrow(2, 0, 4).narrow(3, 0, 4), bias = at::arange(32, x.options()) / 32;
  return {kernels::convolve_3x3(x, w[0], {.bias = bias, .scale = 0.5}),
          kernels::convolve_3x3_enlarged(x, w[0]),
          kernels::convolve_3x3(small, w[0], {.bias = bias}),
          kernels::convolve_3x3(x, w[1]),
          kernels::convolve(x, w[2], bias),
          kernels::convolve(x, w[0], bias, 2),
          kernels::convolve(x.narrow(1, 16, 16), w[2].narrow(1, 16, 16))};
}

std::vector<at::Tensor> weights(std::uint64_t seed, at::ScalarType type) {
  return {channels_last(normals({32, 32, 3, 3}, seed).to(type)),
          channels_last(normals({5, 32, 3, 3}, seed + 1).to(type)),
          channels_last(normals({32, 32, 1, 1}, seed + 2).to(type))};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(packed_weights)

BOOST_AUTO_TEST_CASE(results_are_those_of_plain_weights) {
  const c10::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const std::vector<at::Tensor> w = weights(1, type);
    kernels::PackedWeights packed;
    for (const std::int64_t side : {36, 20}) {  // packed for one size and used for another
      const at::Tensor x = channels_last(normals({2, 32, side, side + 4}, 9).to(type));
      const std::vector<at::Tensor> expected = convolve_all(x, w);
      for (int again = 0; again < 2; ++again) {
        const kernels::UsePackedWeights use(&packed);
        const std::vector<at::Tensor> found = convolve_all(x, w);
        for (std::size_t i = 0; i < found.size(); ++i) {
          BOOST_TEST(found[i].is_contiguous(at::MemoryFormat::ChannelsLast), "result " << i);
          const double off = (found[i] - expected[i]).abs().max().item<double>(),
                       largest = expected[i].abs().max().item<double>();
          BOOST_TEST(off <= (type == at::kFloat ? 1e-6 : 1e-2) * largest, "result " << i << " is off by " << off);
        }
      }
    }
    // It holds what was used.
    BOOST_TEST(packed.of(w[0])->matrices.defined());
    BOOST_TEST(!packed.of(at::zeros({16, 16, 3, 3}, type))->matrices.defined());
  }
}

BOOST_AUTO_TEST_CASE(gradients_and_other_threads_take_the_weights_themselves) {
  kernels::PackedWeights packed;
  const kernels::UsePackedWeights use(&packed);
  const at::Tensor w = normals({16, 16, 3, 3}, 1).to(at::kFloat);
  BOOST_TEST(kernels::packed_forms(w) == nullptr);  // gradients are wanted
  const c10::NoGradGuard no_grad;
  BOOST_TEST(kernels::packed_forms(w) == packed.of(w));
  std::thread([&] {
    const c10::NoGradGuard guard;
    BOOST_TEST(kernels::packed_forms(w) == nullptr);
  }).join();
  {
    kernels::PackedWeights inner;
    const kernels::UsePackedWeights other(&inner);
    BOOST_TEST(kernels::packed_forms(w) == inner.of(w));
  }
  BOOST_TEST(kernels::packed_forms(w) == packed.of(w));
}

BOOST_AUTO_TEST_CASE(they_take_no_more_than_a_gigabyte) {
  kernels::PackedWeights packed;
  const at::Tensor w = at::empty({1024, 1024, 3, 3}, at::kBFloat16);  // matrices of 151 MB
  std::vector<at::Tensor> slices;
  int held = 0;
  for (int i = 0; i < 12; ++i) {
    slices.push_back(at::empty_like(w));
    held += packed.of(slices.back()) != nullptr;
  }
  BOOST_TEST(held == 6);
  BOOST_TEST(packed.of(slices.front()) != nullptr);  // those that have room keep it
  packed.clear();
  BOOST_TEST(packed.of(slices.back()) != nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
