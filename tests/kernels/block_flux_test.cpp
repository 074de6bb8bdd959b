// The projection of blocks: flux to rounding, nothing changed but one constant a block.
#include "kernels/block_flux.h"

#include "tests/kernels/devices.h"
#include "tests/kernels/differentiation.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

at::Tensor block_means(const at::Tensor& x, std::int64_t s) {
  return at::avg_pool2d(x.unsqueeze(-3), {s, s}).squeeze(-3);
}

at::Tensor project(const at::Tensor& t, const at::Tensor& q, std::int64_t s, const Place& place) {
  return kernels::project_blocks(t.to(place.device), q.to(place.device), s).to(at::kCPU);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(block_flux)

BOOST_AUTO_TEST_CASE(projections_equal_the_reference) {
  for (const Place& place : places())
    for (const auto& [n, h, w, s] :
         {std::array<std::int64_t, 4>{1, 1, 1, 1}, {3, 5, 7, 2}, {2, 4, 3, 5}, {1, 33, 40, 4}, {2, 3, 65, 8}})
      for (const double size : {0.01, 3.0, 40.0}) {
        const at::Tensor t = size * normals({n, s * h, s * w}, 1), q = at::sinh(size * normals({h, w}, 2));
        // d is the logarithm of a root whose parts are sums of like sign: a few roundings of numbers up to size.
        check_close(project(t, q, s, place), kernels::reference::project_blocks(t, q, s), 2e-15, 1e-14 * (1 + size),
                    "blocks of " + std::to_string(s) + " on " + place.name);
      }
}

BOOST_AUTO_TEST_CASE(block_means_of_sinh_are_what_was_measured) {
  for (const Place& place : places()) {
    const at::Tensor t = 2 * normals({2, 24, 36}, 3), q = 5 * normals({6, 9}, 4), found = project(t, q, 4, place);
    // Sinh cancels in a mean; its terms are up to 1e4 here.
    check_close(block_means(at::sinh(found), 4), q.unsqueeze(0).expand({2, 6, 9}), 1e-12, 1e-10, place.name);
    const at::Tensor d = found - t;
    check_close(d, block_means(d, 4).repeat_interleave(4, 1).repeat_interleave(4, 2), 0, 1e-14, "one shift a block");
  }
}

BOOST_AUTO_TEST_CASE(values_at_the_ends_of_the_range_stay_finite) {
  for (const Place& place : places()) {
    at::Tensor t = at::zeros({4, 8}, at::kDouble);
    t[0][0] = 1e9;
    t[0][4] = -1e9;
    t[1][1] = 299;
    const at::Tensor q = at::tensor({1e100, -1e100}, at::kDouble).view({1, 2});
    const at::Tensor found = project(t, q, 4, place);
    BOOST_TEST(found.isfinite().all().item<bool>());
    check_close(found, kernels::reference::project_blocks(t, q, 4), 1e-14, 1e-12, place.name);
  }
}

BOOST_AUTO_TEST_CASE(float_maps_and_views_are_taken_and_threads_do_not_matter) {
  const at::Tensor wide = normals({80, 100}, 5).to(at::kFloat), t = wide.narrow(0, 8, 64).narrow(1, 4, 96),
                   q = normals({16, 24}, 6).to(at::kFloat);
  const auto with = [&](int n) {
    const Threads threads(n);
    return kernels::project_blocks(t, q, 4);
  };
  const at::Tensor one = with(1);
  BOOST_TEST((one.scalar_type() == at::kDouble && one.sizes() == t.sizes()));
  BOOST_TEST(at::equal(one, with(2)));
  BOOST_TEST(at::equal(one, kernels::project_blocks(t.to(at::kDouble).contiguous(), q.to(at::kDouble), 4)));
}

BOOST_AUTO_TEST_CASE(maps_that_do_not_fit_are_refused) {
  const at::Tensor q = at::zeros({3, 4}, at::kDouble);
  BOOST_CHECK_THROW(kernels::project_blocks(at::zeros({6, 9}), q, 2), c10::Error);
  BOOST_CHECK_THROW(kernels::project_blocks(at::zeros({3, 4}), q, 0), c10::Error);
  BOOST_CHECK_THROW(kernels::project_blocks(at::zeros({6, 8}), q[0], 2), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()
