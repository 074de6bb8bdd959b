// Windows over a field: weights that sum to one, and estimates that equal (exact) or stay near (smooth) the untiled
// ones.
#include "diffusion/tiling.h"

#include <c10/core/GradMode.h>

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "tests/device/recording_device.h"
#include "tests/diffusion/small_network.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
using diffusion::TileAxis;
using diffusion::TiledDenoiser;

/// What must hold of any plan.
void check_plan(const TileAxis& axis, std::int64_t length, std::int64_t alignment, const std::string& what) {
  BOOST_TEST_REQUIRE(axis.starts.size() == axis.weights.size());
  BOOST_TEST(axis.length == length);
  BOOST_TEST(axis.starts.front() == 0, what);
  BOOST_TEST(axis.starts.back() + axis.tile == length, what);
  std::vector<double> sum(static_cast<std::size_t>(length), 0.0);
  bool aligned = true, rising = true, positive = true;
  for (std::size_t t = 0; t < axis.starts.size(); ++t) {
    aligned = aligned && axis.starts[t] % alignment == 0;
    rising = rising && (t == 0 || axis.starts[t] > axis.starts[t - 1]);
    BOOST_TEST_REQUIRE(static_cast<std::int64_t>(axis.weights[t].size()) == axis.tile);
    for (std::int64_t i = 0; i < axis.tile; ++i) {
      const double w = axis.weights[t][static_cast<std::size_t>(i)];
      positive = positive && w >= 0;
      sum[static_cast<std::size_t>(axis.starts[t] + i)] += w;
    }
  }
  BOOST_TEST(aligned, what);
  BOOST_TEST(rising, what);
  BOOST_TEST(positive, what);
  double worst = 0;
  for (const double s : sum) worst = std::max(worst, std::abs(s - 1));  // NaN would fail the comparison below too
  BOOST_TEST(worst < 1e-6, what << ": weights sum to 1 +- " << worst);  // three float32 roundings
}

/// A field, its conditions and a network with a receptive radius of some 40 pixels.
struct Scene {
  explicit Scene(std::int64_t members, std::int64_t height = 200, std::int64_t width = 168)
      : network(small_config(), 4, at::kCPU, at::kFloat),
        x(normals({members, 1, height, width}, 61)),
        maps(normals({3, height, width}, 62)),
        scalars(normals({4}, 63)) {
    diffusion::perturb_gains(network, 0.5);
    network.prepare_for_sampling(at::kFloat);
  }
  at::Tensor tiled(std::int64_t tile, std::int64_t overlap, bool exact, std::int64_t at_once, double sigma = 0.6,
                   const at::Tensor& state = {}) {
    const auto axis = [&](std::int64_t n) {
      return diffusion::plan_axis(n, tile, overlap, exact, network.receptive_radius(), network.alignment());
    };
    return TiledDenoiser(network, *device, maps, scalars, axis(x.size(2)), axis(x.size(3)), at_once)(
        state.defined() ? state : x, sigma);
  }
  const std::unique_ptr<device::Device> device = device::open_device("cpu");
  diffusion::EdmNetwork network;
  at::Tensor x, maps, scalars;
  c10::NoGradGuard no_grad;
};

double largest_difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }
double rms(const at::Tensor& a) { return a.square().mean().sqrt().item<double>(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(plans)

BOOST_AUTO_TEST_CASE(weights_of_every_plan_sum_to_one) {
  int plans = 0;
  for (const std::int64_t alignment : {4, 8})
    for (std::int64_t length = 4 * alignment; length <= 400; length += 3 * alignment)
      for (const std::int64_t tile : {32, 40, 64, 96, 128})
        for (const std::int64_t overlap : {-1, 0, 1, 8, 24, 31})
          for (const bool exact : {false, true}) {
            const std::int64_t radius = 3 * alignment;
            try {
              const TileAxis axis = diffusion::plan_axis(length, tile, overlap, exact, radius, alignment);
              check_plan(axis, length, alignment,
                         "length " + std::to_string(length) + ", tile " + std::to_string(tile) + ", overlap " +
                             std::to_string(overlap) + (exact ? ", exact" : ""));
              ++plans;
            } catch (const Error& e) {
              // Only where the overlap leaves a window nothing of its own.
              const std::int64_t shared = exact ? 2 * radius : overlap < 0 ? tile / 2 : overlap;
              BOOST_TEST((shared + alignment - 1) / alignment * alignment + alignment > tile, e.what());
              BOOST_TEST((e.code() == ExitCode::usage));
            }
          }
  BOOST_TEST(plans > 2000);
}

BOOST_AUTO_TEST_CASE(a_field_no_larger_than_a_tile_is_one_window) {
  for (const std::int64_t tile : {0, 64, 100}) {
    const TileAxis axis = diffusion::plan_axis(64, tile, -1, false, 20, 8);
    BOOST_TEST(axis.starts.size() == 1u);
    BOOST_TEST(axis.tile == 64);
    for (const float w : axis.weights[0]) BOOST_TEST(w == 1.f);
  }
}

BOOST_AUTO_TEST_CASE(exact_weights_are_whole_and_never_take_a_pixel_that_sees_an_inner_border) {
  for (const std::int64_t length : {160, 168, 248, 400}) {
    constexpr std::int64_t radius = 44;
    const TileAxis axis = diffusion::plan_axis(length, 128, -1, true, radius, 8);
    for (std::size_t t = 0; t < axis.starts.size(); ++t)
      for (std::int64_t i = 0; i < axis.tile; ++i) {
        const float w = axis.weights[t][static_cast<std::size_t>(i)];
        BOOST_TEST((w == 0 || w == 1));
        // The nearest pixel beyond an inner border is farther away than the radius.
        const bool near_start = t > 0 && i + 1 <= radius,
                   near_end = t + 1 < axis.starts.size() && axis.tile - i <= radius;
        if (near_start || near_end) BOOST_TEST(w == 0, "window " << t << ", pixel " << i << " of length " << length);
      }
  }
}

BOOST_AUTO_TEST_CASE(smooth_weights_vanish_at_inner_borders_and_change_slowly) {
  const TileAxis axis = diffusion::plan_axis(320, 128, -1, false, 40, 8);
  BOOST_TEST(axis.weights[1].front() == 0);
  BOOST_TEST(axis.weights[1].back() == 0);
  BOOST_TEST(axis.weights.front().front() == 1);  // the field's own border
  for (const auto& w : axis.weights)
    for (std::size_t i = 1; i < w.size(); ++i)
      BOOST_TEST(std::abs(w[i] - w[i - 1]) < 0.04);  // a raised cosine over 48 pixels: pi / 96
}

BOOST_AUTO_TEST_CASE(tiles_that_cannot_overlap_so_are_usage_errors_with_a_remedy) {
  const auto says = [](std::int64_t tile, std::int64_t overlap, bool exact, const std::string& part) {
    try {
      diffusion::plan_axis(400, tile, overlap, exact, 44, 8);
      BOOST_ERROR("no error");
    } catch (const Error& e) {
      BOOST_TEST((e.code() == ExitCode::usage));
      BOOST_TEST(std::string(e.what()).find(part) != std::string::npos, e.what());
    }
  };
  says(64, 64, false, "smaller --overlap");
  says(64, 1000, false, "smaller --overlap");
  says(88, -1, true, "--tile of at least 96");
  BOOST_TEST(diffusion::plan_axis(400, 96, -1, true, 44, 8).starts.size() > 1u);  // as that message promises
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(tiled_denoiser)

BOOST_AUTO_TEST_CASE(exact_tiles_equal_the_untiled_field) {
  Scene s(2);
  const at::Tensor whole = s.tiled(0, -1, false, 2);
  // Only roundings differ: convolutions of other sizes may add in another order.
  BOOST_TEST(largest_difference(s.tiled(112, -1, true, 3), whole) < 1e-5);
  BOOST_TEST(largest_difference(s.tiled(144, -1, true, 1), whole) < 1e-5);
}

BOOST_AUTO_TEST_CASE(one_window_is_the_network_itself) {
  Scene s(2, 64, 80);
  const at::Tensor direct = s.network.denoise(
      s.x, at::full({2}, 0.6), {s.maps.unsqueeze(0).expand({2, -1, -1, -1}), s.scalars.unsqueeze(0).expand({2, -1})});
  BOOST_TEST(largest_difference(s.tiled(0, -1, false, 2), direct) < 1e-6);
}

BOOST_AUTO_TEST_CASE(smooth_tiles_stay_near_the_untiled_field) {
  Scene s(1);
  for (const double sigma : {0.05, 0.6, 10.0}) {
    const at::Tensor whole = s.tiled(0, -1, false, 1, sigma);
    const double difference = rms(s.tiled(64, -1, false, 4, sigma) - whole) / rms(whole),
                 wider = rms(s.tiled(128, -1, false, 4, sigma) - whole) / rms(whole);
    BOOST_TEST_MESSAGE("sigma " << sigma << ": rms difference " << difference << ", with larger tiles " << wider);
    // Windows of 64 with half of them shared, a radius of 44: a network of random weights (trained ones look less far).
    BOOST_TEST(difference < 0.05);
    BOOST_TEST(difference > 0);
    BOOST_TEST(wider < difference);
  }
}

BOOST_AUTO_TEST_CASE(batches_do_not_matter) {
  Scene s(3, 128, 96);
  const at::Tensor one = s.tiled(64, 32, false, 1);
  for (const std::int64_t at_once : {2, 5, 100})
    BOOST_TEST(largest_difference(s.tiled(64, 32, false, at_once), one) < 1e-5);
  BOOST_TEST(largest_difference(s.tiled(64, 32, false, 0), one) == 0);  // at least one
}

BOOST_AUTO_TEST_CASE(members_do_not_mix_and_their_order_does_not_matter) {
  Scene s(3, 128, 96);
  const at::Tensor all = s.tiled(64, 32, false, 4), order = at::tensor({2, 0, 1}, at::kLong);
  BOOST_TEST(largest_difference(s.tiled(64, 32, false, 4, 0.6, s.x.index_select(0, order)),
                                all.index_select(0, order)) < 1e-5);
  BOOST_TEST(largest_difference(s.tiled(64, 32, false, 4, 0.6, s.x.narrow(0, 1, 1)), all.narrow(0, 1, 1)) < 1e-5);
}

BOOST_AUTO_TEST_CASE(an_evaluation_is_recorded_once_for_each_number_of_members) {
  Scene scene(3);
  RecordingDevice recorder;
  const auto axis = [&](std::int64_t n) {
    return diffusion::plan_axis(n, 96, -1, false, 0, scene.network.alignment());
  };
  const auto make = [&](device::Device& device) {
    return TiledDenoiser(scene.network, device, scene.maps, scene.scalars, axis(200), axis(168), 4);
  };
  TiledDenoiser recorded = make(recorder), plain = make(device::cpu());
  std::vector<at::Tensor> kept;
  for (const double sigma : {4.0, 1.0, 0.5, 0.2}) {
    kept.push_back(recorded(scene.x, sigma));
    BOOST_TEST(at::equal(kept.back(), plain(scene.x, sigma)), sigma);
  }
  BOOST_TEST(recorder.captures == 1);
  BOOST_TEST(recorder.replays == 3);
  BOOST_TEST(at::equal(kept[1], plain(scene.x, 1.0)));  // a later replay does not write over it
  for (int i = 0; i < 3; ++i) (void)recorded(scene.x.narrow(0, 0, 2), 0.7);
  BOOST_TEST(at::equal(recorded(scene.x.narrow(0, 0, 2), 0.7), plain(scene.x.narrow(0, 0, 2), 0.7)));
  BOOST_TEST(recorder.captures == 2);
}

BOOST_AUTO_TEST_SUITE_END()
