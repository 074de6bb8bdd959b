// A field cut into strips, one a process: together they are the whole field, to the bit, however their windows overlap.
// Each strip is a thread here, and threads exchange as processes do.
#include "diffusion/strips.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <barrier>
#include <boost/test/unit_test.hpp>
#include <mutex>
#include <thread>

#include "diffusion/tiling.h"
#include "tests/device/recording_device.h"
#include "tests/diffusion/small_network.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
using namespace cirrus::diffusion;

constexpr std::int64_t kHeight = 200, kWidth = 88;

/// What an all-to-all of threads needs.
class Exchanges {
public:
  explicit Exchanges(std::size_t size) : size_(size), meeting_(static_cast<std::ptrdiff_t>(size)), sent_(size) {}
  Exchange of(std::size_t rank) {
    return [this, rank](const at::Tensor& received, const std::vector<std::int64_t>& from, const at::Tensor& sent,
                        const std::vector<std::int64_t>& to) {
      sent_[rank].clear();
      std::int64_t at = 0;
      for (const std::int64_t n : to) sent_[rank].push_back(sent.narrow(0, std::exchange(at, at + n), n));
      all_ = all_ && at == sent.numel() && to.size() == size_ && from.size() == size_;
      meeting_.arrive_and_wait();
      at = 0;
      for (std::size_t s = 0; s < size_; ++s) {
        const at::Tensor& part = sent_[s][rank];
        agreed_ = agreed_ && part.numel() == from[s];
        if (part.numel() == from[s]) received.narrow(0, std::exchange(at, at + from[s]), from[s]).copy_(part);
      }
      meeting_.arrive_and_wait();
    };
  }
  bool agreed() const { return agreed_ && all_; }

private:
  const std::size_t size_;
  std::barrier<> meeting_;
  std::vector<std::vector<at::Tensor>> sent_;
  std::atomic<bool> agreed_{true}, all_{true};
};

/// A device whose memory holds one window at a time.
class Cramped : public EdmNetwork {
public:
  using EdmNetwork::EdmNetwork;
  at::Tensor denoise(const at::Tensor& x, const at::Tensor& sigma, const Conditions& conditions) override {
    TORCH_CHECK_WITH(OutOfMemoryError, !cramped || x.size(0) == 1, "no room for ", x.size(0));
    return EdmNetwork::denoise(x, sigma, conditions);
  }
  bool cramped = false;
};

struct Scene {
  at::Tensor x, maps = normals({3, kHeight, kWidth}, 62), scalars = normals({4}, 63);
  c10::NoGradGuard no_grad;
  int threads = at::get_num_threads();

  explicit Scene(std::int64_t members = 2) : x(normals({members, 1, kHeight, kWidth}, 61)) { at::set_num_threads(1); }
  ~Scene() { at::set_num_threads(threads); }

  static Cramped network() {
    Cramped n(small_config(), 4, at::kCPU, at::kFloat);
    perturb_gains(n, 0.5);
    n.prepare_for_sampling(at::kFloat);
    return n;
  }
  /// Estimates at several noise levels in turn: later ones are replayed where the device records.
  static std::vector<at::Tensor> run(TiledDenoiser& denoise, const at::Tensor& x) {
    std::vector<at::Tensor> out;
    for (const double sigma : {4.0, 0.6, 0.1}) out.push_back(denoise(x, sigma));
    return out;
  }
  std::vector<at::Tensor> whole(const TileAxis& rows, const TileAxis& columns, std::int64_t at_once) {
    Cramped n = network();
    TiledDenoiser denoise(n, device::cpu(), maps, scalars, rows, columns, at_once);
    return run(denoise, x);
  }
  /// The same by strips; checks that strips agree on the rows they share.
  std::vector<at::Tensor> by_strips(const TileAxis& rows, const TileAxis& columns, std::int64_t count,
                                    std::int64_t at_once, bool record = false, bool cramped = false) {
    const std::vector<Strip> strips = cut_strips(rows, count);
    Exchanges exchanges(strips.size());
    std::vector<std::vector<at::Tensor>> parts(strips.size());
    std::vector<std::thread> threads_of_strips;
    for (std::size_t s = 0; s < strips.size(); ++s)
      threads_of_strips.emplace_back([&, s] {
        const c10::NoGradGuard guard;
        at::set_num_threads(1);
        Cramped n = network();
        n.cramped = cramped && s == 1;
        RecordingDevice recorder;
        device::Device& device = record ? recorder : device::cpu();
        TiledDenoiser denoise(n, device, maps.narrow(1, strips[s].begin, strips[s].end - strips[s].begin).contiguous(),
                              scalars, Seams(rows, columns, strips, s, exchanges.of(s), at::kCPU), columns, at_once);
        parts[s] = run(denoise, x.narrow(2, strips[s].begin, strips[s].end - strips[s].begin).contiguous());
        if (record && recorder.replays < 2) parts[s].clear();
      });
    for (std::thread& t : threads_of_strips) t.join();
    BOOST_TEST(exchanges.agreed());

    std::vector<at::Tensor> out;
    for (std::size_t level = 0; level < 3; ++level) {
      at::Tensor field = at::full_like(x, NAN);
      for (std::size_t s = 0; s < strips.size(); ++s) {
        BOOST_TEST_REQUIRE(parts[s].size() == 3u);
        field.narrow(2, strips[s].begin, strips[s].own_end - strips[s].begin)
            .copy_(parts[s][level].narrow(2, 0, strips[s].own_end - strips[s].begin));
      }
      for (std::size_t s = 0; s < strips.size(); ++s)
        BOOST_TEST(at::equal(parts[s][level], field.narrow(2, strips[s].begin, strips[s].end - strips[s].begin)),
                   "strip " << s << " of " << strips.size() << " holds other values than its neighbours");
      out.push_back(field);
    }
    return out;
  }
};

double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = (a[i] - b[i]).abs().max().item<double>();
    worst = d <= worst ? worst : d;  // NaN stays
  }
  return worst;
}

/// Field pixels that windows of so many tile rows cover, at most.
std::int64_t most_windows(const TileAxis& axis) {
  std::int64_t most = 0;
  for (std::int64_t y = 0; y < axis.length; ++y)
    most = std::max<std::int64_t>(most, std::count_if(axis.starts.begin(), axis.starts.end(), [&](std::int64_t start) {
                                    return start <= y && y < start + axis.tile;
                                  }));
  return most;
}

TileAxis rows_of(std::int64_t tile, std::int64_t overlap = -1) {
  return plan_axis(kHeight, tile, overlap, false, 0, 8);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(strips)

BOOST_AUTO_TEST_CASE(strips_hold_all_tile_rows_in_order_and_part_the_field) {
  for (const std::int64_t tile : {32, 64, 104})
    for (std::int64_t count = 1; count < 9; ++count) {
      const TileAxis rows = rows_of(tile);
      const std::vector<Strip> strips = cut_strips(rows, count);
      BOOST_TEST(static_cast<std::int64_t>(strips.size()) == std::min(count, rows.count()));
      std::int64_t tile_rows = 0, end = 0, most = 0, least = rows.count();
      for (const Strip& s : strips) {
        BOOST_TEST(s.first == tile_rows);
        BOOST_TEST(s.begin == end);
        BOOST_TEST(s.begin == rows.starts[static_cast<std::size_t>(s.first)]);
        BOOST_TEST(s.end == rows.starts[static_cast<std::size_t>(s.first + s.count - 1)] + rows.tile);
        BOOST_TEST(s.own_end <= s.end);
        tile_rows += s.count;
        end = s.own_end;
        most = std::max(most, s.count);
        least = std::min(least, s.count);
      }
      BOOST_TEST(tile_rows == rows.count());
      BOOST_TEST(end == kHeight);
      BOOST_TEST(most - least <= 1);
    }
}

BOOST_AUTO_TEST_CASE(together_they_are_the_whole_field_to_the_bit) {
  Scene scene;
  const TileAxis columns = plan_axis(kWidth, 40, -1, false, 0, 8);
  BOOST_TEST_REQUIRE(columns.count() > 2);
  for (const std::int64_t tile : {64, 72}) {
    const TileAxis rows = rows_of(tile);
    // Three windows cover a pixel, of two and of three strips: at 64 where the last window reaches far back.
    BOOST_TEST_REQUIRE(most_windows(rows) == 3);
    // One window at a time: the network rounds otherwise in batches of other sizes.
    const std::vector<at::Tensor> whole = scene.whole(rows, columns, 1);
    for (const std::int64_t count : {1, 2, 3, 6}) {
      BOOST_TEST(largest_difference(scene.by_strips(rows, columns, count, 1), whole) == 0,
                 "tiles of " << tile << ", " << count << " strips");
      BOOST_TEST(largest_difference(scene.by_strips(rows, columns, count, 5), whole) < 1e-5);
    }
  }
  // Windows that share nothing, and such that share nearly everything.
  for (const std::int64_t overlap : {0, 48}) {
    const TileAxis rows = rows_of(56, overlap);
    BOOST_TEST(largest_difference(scene.by_strips(rows, columns, 2, 1), scene.whole(rows, columns, 1)) == 0, overlap);
  }
}

BOOST_AUTO_TEST_CASE(a_strip_records_its_part_and_exchanges_anew) {
  Scene scene(1);
  const TileAxis rows = rows_of(64), columns = plan_axis(kWidth, 0, -1, false, 0, 8);
  BOOST_TEST(largest_difference(scene.by_strips(rows, columns, 3, 1, true), scene.whole(rows, columns, 1)) == 0);
}

BOOST_AUTO_TEST_CASE(a_strip_whose_memory_runs_out_goes_on_with_fewer_windows) {
  Scene scene;
  const TileAxis rows = rows_of(64), columns = plan_axis(kWidth, 40, -1, false, 0, 8);
  BOOST_TEST(largest_difference(scene.by_strips(rows, columns, 3, 7, false, true), scene.whole(rows, columns, 1)) <
             1e-5);
}

BOOST_AUTO_TEST_CASE(a_split_window_equals_the_whole_one_to_rounding) {
  Scene scene;
  const Cramped n = Scene::network();
  const TileAxis columns = plan_axis(kWidth, 0, -1, false, 0, 8), one = plan_axis(kHeight, 0, -1, false, 0, 8);
  const std::vector<at::Tensor> whole = scene.whole(one, columns, 2);
  for (const std::int64_t count : {2, 4}) {
    const TileAxis rows = split_window(kHeight, count, n.receptive_radius(), n.alignment());
    BOOST_TEST_REQUIRE(rows.count() > 1);
    BOOST_TEST(largest_difference(scene.by_strips(rows, columns, count, 2), whole) < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(a_window_is_split_into_no_more_than_asked_and_only_where_it_is_long_enough) {
  for (const std::int64_t length : {96, 200, 320, 1088})
    for (std::int64_t count = 1; count < 12; ++count) {
      const TileAxis axis = split_window(length, count, 44, 8);
      BOOST_TEST(axis.count() <= count);
      BOOST_TEST(axis.length == length);
      BOOST_TEST(axis.starts.back() + axis.tile == length);
      BOOST_TEST((axis.count() == 1) == (count == 1 || length <= 88 + 8), length << " by " << count);
      for (std::size_t t = 1; t < axis.starts.size(); ++t)
        BOOST_TEST(axis.starts[t - 1] + axis.tile - axis.starts[t] >= 88);
      if (axis.count() > 1) BOOST_TEST(axis.tile <= (length + (count - 1) * 88) / count + 16);  // no larger than needed
    }
  BOOST_TEST(split_window(1000, 4, kWholeWindow, 8).count() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
