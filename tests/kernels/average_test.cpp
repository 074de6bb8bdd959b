// The moving average of weights, all tensors in one call.
#include "kernels/average.h"

#include "tests/kernels/devices.h"
#include "tests/kernels/differentiation.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

/// Weights as a network has them, one of them with more values than a thread's smallest piece.
Tensors weights(std::uint64_t seed, const at::Device& device = at::kCPU) {
  Tensors out;
  for (const at::Tensor& w :
       {normals({7, 5, 3, 3}, seed), normals({96, 64, 3, 3}, seed + 1).contiguous(at::MemoryFormat::ChannelsLast),
        normals({33, 17}, seed + 2), normals({1}, seed + 3), normals({0}, seed + 4)})
    out.push_back(w.to(device, at::kFloat));
  return out;
}

at::Tensor share(double value, const at::Device& device = at::kCPU) {
  return at::full({}, value, at::TensorOptions(device).dtype(at::kFloat));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(average)

BOOST_AUTO_TEST_CASE(averages_move_by_the_share_of_the_difference) {
  for (const Place& place : places())
    for (const double s : {0.0, 0.001, 0.25, 1.0}) {
      const Tensors averaged = weights(1, place.device), w = weights(11, place.device), before = weights(1),
                    target = weights(11);
      kernels::average_weights(averaged, w, share(s, place.device));
      for (std::size_t i = 0; i < w.size(); ++i) {
        const at::Tensor a = before[i].to(at::kDouble), b = target[i].to(at::kDouble);
        if (a.numel() == 0) continue;
        // The share itself is rounded to float32; three roundings of numbers below 10.
        check_close(averaged[i].to(at::kCPU).to(at::kDouble), a + s * (b - a), 2e-7, 2e-6, place.name);
        BOOST_TEST(at::equal(w[i].to(at::kCPU), target[i]));
      }
    }
}

BOOST_AUTO_TEST_CASE(layouts_that_differ_and_views_are_averaged_too) {
  for (const Place& place : places()) {
    const at::Tensor w = normals({6, 5, 3, 3}, 3).to(place.device, at::kFloat), plain = at::zeros_like(w),
                     last = plain.contiguous(at::MemoryFormat::ChannelsLast).clone(at::MemoryFormat::Preserve);
    at::Tensor buffer = at::zeros({6, 5, 3, 3, 2}, w.options());
    kernels::average_weights({last, buffer.select(4, 1)}, {w, w}, share(0.5, place.device));
    BOOST_TEST(at::equal(last, 0.5 * w));
    BOOST_TEST(at::equal(buffer.select(4, 1), 0.5 * w));
    BOOST_TEST(buffer.select(4, 0).abs().max().item<double>() == 0);
  }
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter) {
  const auto with = [](int n) {
    const Threads threads(n);
    const Tensors averaged = weights(1);
    kernels::average_weights(averaged, weights(11), share(0.1));
    return averaged;
  };
  const Tensors one = with(1), two = with(2);
  for (std::size_t i = 0; i < one.size(); ++i) BOOST_TEST(at::equal(one[i], two[i]));
}

BOOST_AUTO_TEST_CASE(lists_that_do_not_fit_are_refused) {
  const Tensors w = weights(1);
  BOOST_CHECK_THROW(kernels::average_weights(w, {w[0]}, share(0.1)), c10::Error);
  BOOST_CHECK_THROW(kernels::average_weights({w[0]}, {w[1]}, share(0.1)), c10::Error);
  BOOST_CHECK_THROW(kernels::average_weights(w, w, at::zeros({2})), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
