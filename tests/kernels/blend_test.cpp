// Windows added into fields: equal to one window after the other, whatever the threads.
#include "kernels/blend.h"

#include "tests/kernels/devices.h"
#include "tests/kernels/differentiation.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

/// Seven windows of two members that overlap, touch the borders and lie on each other.
struct Case {
  at::Tensor field = normals({2, 1, 40, 61}, 1).to(at::kFloat), windows = normals({7, 1, 13, 29}, 2).to(at::kFloat);
  std::vector<std::int64_t> members{0, 1, 0, 0, 1, 0, 0}, rows{0, 0, 5, 5, 27, 27, 5}, columns{0, 0, 7, 8, 32, 32, 7};
  at::Tensor row_weights = normals({7, 13}, 3).to(at::kFloat), column_weights = normals({7, 29}, 4).to(at::kFloat);

  at::Tensor blend(const at::Device& device = at::kCPU) const {
    at::Tensor out = field.to(device).clone();
    kernels::blend_windows(out, windows.to(device), members, rows, columns, row_weights.to(device),
                           column_weights.to(device));
    return out.to(at::kCPU);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(blend)

BOOST_AUTO_TEST_CASE(windows_add_up_as_in_the_reference) {
  for (const Place& place : places()) {
    const Case c;
    at::Tensor exact = c.field.to(at::kDouble);
    kernels::reference::blend_windows(exact, c.windows.to(at::kDouble), c.members, c.rows, c.columns,
                                      c.row_weights.to(at::kDouble), c.column_weights.to(at::kDouble));
    const at::Tensor found = c.blend(place.device);
    // Up to four products of three numbers below 5, each rounded three times.
    check_close(found.to(at::kDouble), exact, 1e-6, 1e-5, place.name);
    // What no window covers stays as it was.
    BOOST_TEST(at::equal(found.narrow(2, 18, 9), c.field.narrow(2, 18, 9)));
    BOOST_TEST(!at::equal(found, c.field));
  }
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter_and_runs_repeat) {
  const auto with = [&](int n) {
    const Threads threads(n);
    return Case().blend();
  };
  BOOST_TEST(at::equal(with(1), with(2)));
  for (const Place& place : places()) BOOST_TEST(at::equal(Case().blend(place.device), Case().blend(place.device)));
}

BOOST_AUTO_TEST_CASE(weights_that_sum_to_one_give_back_the_field) {
  for (const Place& place : places()) {
    const at::Tensor field = normals({1, 1, 8, 30}, 5).to(at::kFloat), ramp = (at::arange(10, at::kFloat) + 0.5) / 10;
    const at::Tensor columns = at::stack({at::cat({at::ones({10}), 1 - ramp}), at::cat({ramp, at::ones({10})})});
    const at::Tensor windows = at::cat({field.narrow(3, 0, 20), field.narrow(3, 10, 20)});
    at::Tensor out = at::zeros({1, 1, 8, 30}).to(place.device);
    kernels::blend_windows(out, windows.to(place.device), {0, 0}, {0, 0}, {0, 10}, at::ones({2, 8}).to(place.device),
                           columns.to(place.device));
    check_close(out.to(at::kCPU).to(at::kDouble), field.to(at::kDouble), 1e-6, 1e-7, place.name);
  }
}

BOOST_AUTO_TEST_CASE(fields_in_views_and_double_are_taken) {
  const Case c;
  at::Tensor buffer = at::zeros({2, 1, 40, 70}), view = buffer.narrow(3, 4, 61);
  view.copy_(c.field);
  kernels::blend_windows(view, c.windows, c.members, c.rows, c.columns, c.row_weights, c.column_weights);
  check_close(view.to(at::kDouble), c.blend().to(at::kDouble), 1e-6, 1e-5, "view");
  BOOST_TEST(buffer.narrow(3, 0, 4).abs().max().item<double>() == 0);
}

BOOST_AUTO_TEST_CASE(windows_outside_their_field_are_refused) {
  const auto refused = [](auto&& change) {
    Case c;
    change(c);
    BOOST_CHECK_THROW(c.blend(), c10::Error);
  };
  refused([](Case& c) { c.members[1] = 2; });
  refused([](Case& c) { c.members[1] = -1; });
  refused([](Case& c) { c.rows[3] = 28; });
  refused([](Case& c) { c.columns[3] = 33; });
  refused([](Case& c) { c.columns[3] = -1; });
  refused([](Case& c) { c.rows.pop_back(); });
  refused([](Case& c) { c.row_weights = c.column_weights; });
}

BOOST_AUTO_TEST_SUITE_END()
