// The network's two ends against their reference compositions.
#include "kernels/space_to_depth.h"

#include "tests/kernels/devices.h"
#include "tests/kernels/differentiation.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

at::Tensor floats(at::IntArrayRef shape, std::uint64_t seed) { return normals(shape, seed).to(at::kFloat); }

struct Shape {
  std::int64_t n, bands, maps, h, w;
};
// One pixel of activations, no maps, lines longer than a piece of the kernel's loop, work for more than one thread.
const std::vector<Shape> kShapes{{1, 4, 3, 2, 2}, {3, 1, 0, 4, 6}, {2, 4, 3, 6, 150}, {1, 2, 5, 128, 64}};

}  // namespace

BOOST_AUTO_TEST_SUITE(space_to_depth)

BOOST_AUTO_TEST_CASE(the_input_equals_its_reference_bit_by_bit) {
  const Threads threads(2);
  for (const Place& place : places())
    for (const Shape& s : kShapes)
      for (const at::ScalarType type : place.types) {
        const at::Tensor bands = floats({s.n, s.bands, s.h, s.w}, 1), scales = floats({s.n, s.bands}, 2),
                         maps = floats({s.n, s.maps, s.h, s.w}, 3);
        const at::Tensor found =
            kernels::space_to_depth_input(bands.to(place.device), scales.to(place.device), maps.to(place.device), type);
        // One product and one rounding in both.
        BOOST_TEST(at::equal(found.to(at::kCPU), kernels::reference::space_to_depth_input(bands, scales, maps, type)),
                   place.name);
        BOOST_TEST(found.is_contiguous(at::MemoryFormat::ChannelsLast));
      }
}

BOOST_AUTO_TEST_CASE(channels_hold_the_pixels_of_a_plane_in_reading_order) {
  const at::Tensor bands = at::arange(16, at::kFloat).view({1, 1, 4, 4}), maps = 100 + bands;
  const at::Tensor found =
      kernels::space_to_depth_input(bands, at::full({1, 1}, 2.f), maps, at::kFloat).select(3, 1).select(2, 0);
  // Pixel (0, 1) of the activations: pixels 2, 3 of line 0 and 6, 7 of line 1.
  BOOST_TEST(
      at::equal(found.view({12}), at::tensor({4.f, 6.f, 12.f, 14.f, 102.f, 103.f, 106.f, 107.f, 1.f, 1.f, 1.f, 1.f})));
}

BOOST_AUTO_TEST_CASE(planes_may_be_shared_cut_or_reordered) {
  const at::Tensor bands = floats({2, 4, 8, 12}, 4), scales = floats({2, 4}, 5), field = floats({6, 20, 30}, 6);
  const at::Tensor cut = field.narrow(0, 2, 3).narrow(1, 4, 8).narrow(2, 10, 12);
  const at::Tensor turned = field.narrow(0, 0, 3).transpose(1, 2).narrow(1, 4, 8).narrow(2, 3, 12);
  for (const Place& place : places())
    for (const at::Tensor& maps : {cut, turned, cut.flip(0)}) {
      const auto there = [&](const at::Tensor& x) { return x.to(place.device); };
      const at::Tensor shared = there(field).as_strided(maps.sizes(), maps.strides(), maps.storage_offset());
      const at::Tensor given = maps.is_alias_of(field) ? shared : there(maps);
      BOOST_TEST(at::equal(
          kernels::space_to_depth_input(there(bands), there(scales), given.unsqueeze(0).expand({2, 3, 8, 12}),
                                        at::kFloat),
          kernels::space_to_depth_input(there(bands), there(scales),
                                        there(maps).unsqueeze(0).expand({2, 3, 8, 12}).contiguous(), at::kFloat)));
    }
}

BOOST_AUTO_TEST_CASE(the_output_and_its_gradients_equal_the_reference) {
  for (const Place& place : places())
    for (const Shape& s : kShapes)
      for (const at::ScalarType type : place.types) {
        const at::Tensor bands = floats({s.n, s.bands, s.h, s.w}, 7), there = bands.to(place.device);
        const auto rounded = [&](const at::Tensor& x) { return x.to(type).to(at::kDouble); };
        const Tensors inputs{rounded(floats({s.n, 4, s.h / 2, s.w / 2}, 8)), rounded(floats({s.n}, 9)),
                             rounded(floats({s.n, s.bands}, 10))};
        const Pass exact = differentiate(
            [&](const Tensors& t) {
              return Tensors{kernels::reference::depth_to_space_output(t[0], t[1], bands.to(at::kDouble), t[2])};
            },
            inputs, at::kDouble);
        const auto with = [&](int n) {
          const Threads threads(n);
          return differentiate(
              [&](const Tensors& t) {
                return Tensors{kernels::depth_to_space_output(t[0], t[1].to(at::kFloat), there, t[2].to(at::kFloat))};
              },
              inputs, type, 99, place.device);
        };
        const Pass found = with(2);
        BOOST_TEST(same_bits(found, with(1)));
        check_close(found.outputs[0], exact.outputs[0], 2e-6, 4e-6, "output on " + place.name);
        check_close(found.gradients[0], exact.gradients[0], rounding(type), 1e-6, "gradient of the head");
        // Sums of up to 8192 products of size 1, whose partial sums stay near 100: float32 keeps 1e-5 of those.
        check_close(found.gradients[1], exact.gradients[1], rounding(type), 2e-3, "gradient of its scale");
        check_close(found.gradients[2], exact.gradients[2], rounding(type), 2e-3, "gradient of the bands' scales");
      }
}

BOOST_AUTO_TEST_CASE(the_output_undoes_the_input) {
  const at::Tensor plane = floats({2, 1, 6, 10}, 11), bands = floats({2, 3, 6, 10}, 12);
  const at::Tensor stacked =
      kernels::space_to_depth_input(plane, at::ones({2, 1}), plane.narrow(1, 0, 0), at::kFloat).narrow(1, 0, 4);
  BOOST_TEST(at::equal(kernels::depth_to_space_output(stacked, at::ones({2}), bands, at::zeros({2, 3})), plane));
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  const at::Tensor bands = at::zeros({2, 4, 6, 8}), scales = at::zeros({2, 4}), maps = at::zeros({2, 3, 6, 8});
  const auto input = [&](const at::Tensor& b, const at::Tensor& s, const at::Tensor& m) {
    return kernels::space_to_depth_input(b, s, m, at::kFloat);
  };
  BOOST_CHECK_THROW(input(bands.narrow(2, 0, 5), scales, maps.narrow(2, 0, 5)), c10::Error);  // odd
  BOOST_CHECK_THROW(input(bands, scales, maps.narrow(3, 0, 6)), c10::Error);
  BOOST_CHECK_THROW(input(bands, scales, maps.narrow(0, 0, 1)), c10::Error);
  BOOST_CHECK_THROW(input(bands, scales.narrow(1, 0, 3), maps), c10::Error);
  const at::Tensor head = at::zeros({2, 4, 3, 4}), one = at::zeros({2});
  BOOST_CHECK_THROW(kernels::depth_to_space_output(head.narrow(1, 0, 3), one, bands, scales), c10::Error);
  BOOST_CHECK_THROW(kernels::depth_to_space_output(head.narrow(2, 0, 2), one, bands, scales), c10::Error);
  BOOST_CHECK_THROW(kernels::depth_to_space_output(head, at::zeros({3}), bands, scales), c10::Error);
  BOOST_CHECK_THROW(kernels::depth_to_space_output(head, one, bands, at::zeros({2, 3})), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
