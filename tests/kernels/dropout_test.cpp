// Addressed dropout: the stated share is kept, and which values are depends on the address alone.
#include "kernels/dropout.h"

#include "base/random.h"
#include "tests/kernels/fused_operator.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

constexpr std::uint64_t kSeed = 0xFEDCBA9876543210;

at::Tensor samples(std::int64_t n) { return at::arange(n, at::kLong) * 1000003 + (1ll << 40); }

/// Dropout of x with the samples' numbers where its device wants them.
at::Tensor drop(const at::Tensor& x, double p, const at::Tensor& who, std::uint32_t layer = 0,
                std::uint64_t seed = kSeed) {
  const at::Device where = kernels::has_dropout_kernel(x.device()) ? x.device() : at::Device(at::kCPU);
  return kernels::dropout(x, p, seed, who.to(where), layer);
}

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all{
      {"dropout", [](const Tensors& t) { return Tensors{drop(t[0], 0.3, samples(t[0].size(0)), 5)}; },
       [](const Tensors& t) {
         const at::Tensor who = samples(t[0].size(0));
         return Tensors{kernels::reference::dropout(t[0], 0.3, kSeed, who, 5)};
       },
       [](const Shape& s) { return Tensors{field(s, 1)}; }}};
  return all;
}

/// Which values of ones are kept, on the host.
at::Tensor kept(at::IntArrayRef shape, double p, const at::Tensor& who, std::uint64_t seed = kSeed,
                std::uint32_t layer = 0, at::ScalarType type = at::kFloat, const at::Device& device = at::kCPU) {
  return drop(at::ones(shape, at::TensorOptions(device).dtype(type)), p, who, layer, seed).to(at::kCPU).gt(0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dropout)

BOOST_AUTO_TEST_CASE(fused_operators_equal_their_references) { check_everywhere(subjects()); }

BOOST_AUTO_TEST_CASE(references_have_the_gradients_of_finite_differences) {
  check_references_by_finite_differences(subjects());
}

BOOST_AUTO_TEST_CASE(one_and_two_threads_give_equal_bits) { check_threads(subjects()); }

BOOST_AUTO_TEST_CASE(the_layout_of_the_input_does_not_matter) { check_layouts(subjects()); }

BOOST_AUTO_TEST_CASE(the_share_that_is_kept_is_one_minus_p) {
  for (const Place& place : places())
    for (const double p : {0.02, 0.1, 0.5, 0.9}) {
      const at::Tensor mask = kept({2, 16, 64, 64}, p, samples(2), kSeed, 0, at::kFloat, place.device).to(at::kDouble);
      const double n = static_cast<double>(mask.numel());
      BOOST_TEST(std::abs(mask.mean().item<double>() - (1 - p)) < 4 * std::sqrt(p * (1 - p) / n),
                 place.name << " " << p);
      // Neighbours in channels (words of one block and of the next) and in pixels are independent.
      const at::Tensor d = mask - (1 - p);
      for (const std::int64_t dim : {1, 2, 3}) {
        const std::int64_t m = d.size(dim) - 1;
        const at::Tensor product = d.narrow(dim, 0, m) * d.narrow(dim, 1, m);
        BOOST_TEST(std::abs(product.mean().item<double>()) <
                   4 * p * (1 - p) / std::sqrt(static_cast<double>(product.numel())));
      }
    }
}

BOOST_AUTO_TEST_CASE(without_dropping_nothing_changes) {
  for (const Place& place : places()) {
    const at::Tensor x = field({2, 5, 7, 3}, 3).to(place.device, at::kFloat);
    BOOST_TEST(at::equal(drop(x, 0, samples(2), 1).to(at::kCPU), x.to(at::kCPU)));
  }
}

BOOST_AUTO_TEST_CASE(a_samples_mask_is_the_same_alone_and_in_a_batch_and_in_every_dtype) {
  for (const Place& place : places()) {
    const at::Tensor who = samples(4), all = kept({4, 13, 20, 9}, 0.4, who);
    for (const at::ScalarType type : place.types) {
      BOOST_TEST(at::equal(kept({4, 13, 20, 9}, 0.4, who, kSeed, 0, type, place.device), all));
      BOOST_TEST(
          at::equal(kept({1, 13, 20, 9}, 0.4, who.narrow(0, 2, 1), kSeed, 0, type, place.device), all.narrow(0, 2, 1)));
    }
  }
}

BOOST_AUTO_TEST_CASE(without_a_kernel_the_mask_is_the_same) {
  // The CPU has none for these two.
  for (const at::ScalarType type : {at::kHalf, at::kDouble})
    for (const Shape& s : kShapes) {
      const at::Tensor x = field(s, 4).to(type), who = samples(s.n);
      const at::Tensor y = kernels::dropout(x, 0.3, kSeed, who, 6);
      BOOST_TEST(at::equal(y, kernels::reference::dropout(x, 0.3, kSeed, who, 6)));
      BOOST_TEST(y.is_contiguous(at::MemoryFormat::ChannelsLast));
    }
}

BOOST_AUTO_TEST_CASE(the_gradient_is_dropped_where_the_value_is) {
  const at::Tensor x = at::ones({2, 3, 5, 5}).requires_grad_(true);
  const at::Tensor y = kernels::dropout(x, 0.5, kSeed, samples(2), 2);
  BOOST_TEST(at::equal(torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0], y));
  BOOST_TEST(y.max().item<float>() == 2);
}

BOOST_AUTO_TEST_CASE(seeds_samples_and_layers_have_masks_of_their_own) {
  const at::Tensor one = at::tensor({7}, at::kLong), other = one + (1ll << 32);
  const at::Tensor base = kept({1, 16, 64, 64}, 0.5, one).to(at::kDouble) - 0.5;
  for (const at::Tensor& mask :
       {kept({1, 16, 64, 64}, 0.5, other), kept({1, 16, 64, 64}, 0.5, one + 1),
        kept({1, 16, 64, 64}, 0.5, one, kSeed + 1), kept({1, 16, 64, 64}, 0.5, one, kSeed + (1ull << 32)),
        kept({1, 16, 64, 64}, 0.5, one, kSeed, 1)})
    BOOST_TEST(std::abs((base * (mask.to(at::kDouble) - 0.5)).mean().item<double>()) < 4 * 0.25 / 256);
}

BOOST_AUTO_TEST_CASE(the_threshold_is_the_first_word_that_is_kept) {
  for (const double p : {0.0, 1e-9, 0.1, 0.3, 0.5, 0.999}) {
    const std::uint32_t t = kernels::dropout_threshold(p);
    BOOST_TEST(uniform_from_bits(t) >= p);
    if (t > 0) BOOST_TEST(uniform_from_bits(t - 1) < p);
  }
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  const at::Tensor x = at::zeros({2, 3, 4, 4});
  BOOST_CHECK_THROW(kernels::dropout(x, 1, kSeed, samples(2), 0), c10::Error);
  BOOST_CHECK_THROW(kernels::dropout(x, -0.1, kSeed, samples(2), 0), c10::Error);
  BOOST_CHECK_THROW(kernels::dropout(x, 0.1, kSeed, samples(3), 0), c10::Error);
  BOOST_CHECK_THROW(kernels::dropout(x, 0.1, kSeed, samples(2).to(at::kInt), 0), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
