// Weight normalisation of many layers at once against its reference, and what it is for: convolutions that keep unit
// magnitude.
#include "kernels/weight_norm.h"

#include "tests/kernels/devices.h"
#include "tests/kernels/differentiation.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

/// Layers as a network has them: convolutions, a 1x1 one, one input channel, a matrix; enough rows for several threads.
Tensors layers() {
  return {normals({7, 5, 3, 3}, 1), normals({96, 64, 3, 3}, 2), 3 * normals({9, 13, 1, 1}, 3), normals({4, 1, 3, 3}, 4),
          0.1 * normals({33, 17}, 5)};
}

/// Every device with and without channels-last weights.
std::vector<std::pair<Place, bool>> placed_layouts() {
  std::vector<std::pair<Place, bool>> all;
  for (const Place& place : places())
    for (const bool last : {false, true}) all.emplace_back(place, last);
  return all;
}

Tensors fused(const Tensors& w, at::ScalarType type) { return kernels::normalize_weights(w, type); }

}  // namespace

BOOST_AUTO_TEST_SUITE(weight_norm)

BOOST_AUTO_TEST_CASE(all_layers_equal_the_reference_forward_and_backward) {
  Tensors inputs;
  for (const at::Tensor& w : layers()) inputs.push_back(w.to(at::kFloat).to(at::kDouble));
  const Pass exact = differentiate(
      [](const Tensors& w) { return kernels::reference::normalize_weights(w, at::kDouble); }, inputs, at::kDouble);
  for (const Place& place : places())
    for (const at::ScalarType type : place.types) {
      // The weights stay float32 and only the result is rounded to a shorter type; gradients arrive in it exactly.
      const Pass found =
          differentiate([&](const Tensors& w) { return fused(w, type); }, inputs, at::kFloat, 99, place.device);
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        const std::string what = "layer " + std::to_string(k) + " in " + c10::toString(type) + " on " + place.name;
        check_close(found.outputs[k], exact.outputs[k], rounding(type), 1e-7, what);
        check_close(found.gradients[k], exact.gradients[k], 1e-5, 1e-5, "gradient of " + what);  // up to 576 products
      }
    }
}

BOOST_AUTO_TEST_CASE(a_layer_that_is_not_used_gets_a_zero_gradient) {
  const Tensors w = layers();
  const Pass pass = differentiate([](const Tensors& t) { return fused(t, at::kFloat); }, w, at::kFloat, 2);
  BOOST_TEST(pass.gradients[0].abs().max().item<double>() > 0);
  for (std::size_t k = 2; k < w.size(); ++k) BOOST_TEST(pass.gradients[k].abs().max().item<double>() == 0);
}

BOOST_AUTO_TEST_CASE(one_and_two_threads_give_equal_bits) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto with = [&](int n) {
      const Threads threads(n);
      return differentiate([&](const Tensors& w) { return fused(w, type); }, layers(), at::kFloat);
    };
    BOOST_TEST(same_bits(with(1), with(2)));
  }
}

BOOST_AUTO_TEST_CASE(effective_weights_do_not_depend_on_the_scale_of_the_weights) {
  Tensors scaled;
  for (const at::Tensor& w : layers()) scaled.push_back((1000 * w).to(at::kFloat));
  Tensors plain;
  for (const at::Tensor& w : layers()) plain.push_back(w.to(at::kFloat));
  const Tensors a = fused(plain, at::kFloat), b = fused(scaled, at::kFloat);
  for (std::size_t k = 0; k < a.size(); ++k)
    check_close(b[k].to(at::kDouble), a[k].to(at::kDouble), 1e-6, 1e-8, "scaled layer");
}

BOOST_AUTO_TEST_CASE(normalised_convolutions_keep_unit_magnitude) {
  const at::Tensor w = fused({normals({24, 16, 3, 3}, 6).to(at::kFloat)}, at::kFloat)[0];
  const at::Tensor y = at::conv2d(normals({2, 16, 64, 64}, 7).to(at::kFloat), w);
  // 184512 values, correlated over 3x3 pixels: a standard error of about 1%.
  BOOST_TEST(y.square().mean().item<double>() == 1, boost::test_tools::tolerance(0.04));
}

BOOST_AUTO_TEST_CASE(forced_weights_have_unit_rms_in_every_output_channel) {
  for (const auto& [place, last] : placed_layouts())
    for (const at::Tensor& layer : layers()) {
      at::Tensor before = layer.to(at::kFloat);
      if (last && before.dim() == 4) before = before.contiguous(at::MemoryFormat::ChannelsLast);
      const at::Tensor there = before.to(place.device).clone(at::MemoryFormat::Preserve);
      kernels::force_unit_weights({there});
      const at::Tensor w = there.to(at::kCPU);
      BOOST_TEST(w.flatten(1).square().mean(1).sub(1).abs().max().item<double>() <
                 1e-5);  // float32 sums of up to 576 squares
      // The direction of each channel stays.
      const at::Tensor cosine =
          (w * before).flatten(1).sum(1) / (w.flatten(1).norm(2, 1) * before.flatten(1).norm(2, 1));
      BOOST_TEST(cosine.sub(1).abs().max().item<double>() < 1e-5);
    }
}

BOOST_AUTO_TEST_CASE(weights_in_a_strided_view_are_forced_with_the_others) {
  for (const Place& place : places()) {
    at::Tensor buffer = normals({6, 8, 2}, 8).to(place.device, at::kFloat);
    const at::Tensor untouched = buffer.select(2, 1).clone(), w = buffer.select(2, 0),
                     plain = normals({5, 4}, 9).to(place.device, at::kFloat);
    kernels::force_unit_weights({w, plain});
    for (const at::Tensor& x : {w, plain}) BOOST_TEST(x.square().mean(1).sub(1).abs().max().item<double>() < 1e-5);
    BOOST_TEST(at::equal(buffer.select(2, 1), untouched));
  }
}

BOOST_AUTO_TEST_SUITE_END()
