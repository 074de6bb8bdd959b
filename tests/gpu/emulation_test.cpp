// The code of the CUDA kernels, run by emulated_device.h on the CPU, against the CPU's kernels: every index, barrier
// and sum of them, in shapes that divide nothing and in every dtype. What a real card does with them is for run.sh.
#include <ATen/core/dispatch/Dispatcher.h>

#include <boost/test/unit_test.hpp>
#include <functional>

#include "base/random.h"
#include "kernels/normal_noise.h"

namespace {

using c10::IValue;
using Values = std::vector<IValue>;

constexpr std::array kTypes = {at::kFloat, at::kBFloat16, at::kHalf};

/// Fresh memory is full of NaN, so that what a kernel does not write shows.
struct Poisoned {
  Poisoned() {
    at::globalContext().setDeterministicAlgorithms(true, false);
    at::globalContext().setDeterministicFillUninitializedMemory(true);
    at::manual_seed(1);
  }
  ~Poisoned() { at::globalContext().setDeterministicAlgorithms(false, false); }
};

at::Tensor random(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  const at::Tensor x = at::randn(shape).to(type);
  return x.dim() == 4 ? x.contiguous(at::MemoryFormat::ChannelsLast) : x;
}
/// The same values one element off any alignment.
at::Tensor misaligned(const at::Tensor& x) {
  const at::Tensor memory = at::empty({x.numel() + 1}, x.options());
  return memory.narrow(0, 1, x.numel()).as_strided(x.sizes(), x.strides(), 1).copy_(x);
}

/// Calls f for every tensor of a value, and puts back what it gives.
IValue each_tensor(const IValue& v, const std::function<at::Tensor(const at::Tensor&)>& f) {
  if (v.isTensor()) return f(v.toTensor());
  if (!v.isTensorList()) return v;
  std::vector<at::Tensor> list;
  for (const at::Tensor& t : v.toTensorVector()) list.push_back(f(t));
  return list;
}

/// All tensors that an operator of library cirrus returns, and its arguments afterwards (it may write to them).
std::vector<at::Tensor> run(const std::string& name, c10::DispatchKey device, const Values& arguments) {
  Values stack = arguments;
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(("cirrus::" + name).c_str(), "");
  op.redispatchBoxed(c10::DispatchKeySet(device), &stack);
  stack.insert(stack.end(), arguments.begin(), arguments.end());
  std::vector<at::Tensor> all;
  const auto keep = [&](const at::Tensor& t) { return all.emplace_back(t); };
  for (const IValue& v : stack) each_tensor(v, keep);
  return all;
}

at::Tensor copied(const at::Tensor& t) { return at::empty_strided(t.sizes(), t.strides(), t.options()).copy_(t); }
at::Tensor widened(const at::Tensor& t) {
  return t.is_floating_point() && t.scalar_type() != at::kDouble ? t.to(at::kFloat) : t;
}

/// The CUDA kernel's results are the CPU's on the same values in float32, up to `tolerance` of the largest value and
/// rounding to the type.
void compare(const std::string& name, const Values& arguments, double tolerance = 2e-6) {
  Values given, exact;
  for (const IValue& v : arguments) {
    given.push_back(v.isTensorList() ? each_tensor(v, copied) : v);
    // What is passed as it is (views, misaligned) is written by no operator but those of lists and out tensors.
    exact.push_back(each_tensor(v, [](const at::Tensor& t) { return copied(widened(t)); }));
  }
  // The type of the results is an argument of these; the CPU knows no float16.
  if (name == "space_to_depth_input" || name == "normalize_weights") exact.back() = at::kFloat;
  const std::vector<at::Tensor> found = run(name, c10::DispatchKey::CUDA, given),
                                expected = run(name, c10::DispatchKey::CPU, exact);
  BOOST_TEST_REQUIRE(found.size() == expected.size(), name);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const at::Tensor &f = found[i], &e = expected[i];
    BOOST_TEST((f.sizes() == e.sizes()), name << " gives " << f.sizes() << ", not " << e.sizes());
    if (f.numel() == 0) continue;
    const at::Tensor error = (f.to(at::kDouble) - e.to(at::kDouble)).abs();
    const double rounding =
                     f.scalar_type() == at::kBFloat16 ? 1.0 / 256 : (f.scalar_type() == at::kHalf ? 1.0 / 2048 : 0),
                 largest = e.to(at::kDouble).abs().max().item<double>();
    const at::Tensor bound =
        e.to(at::kDouble).abs() * (1.01 * rounding) + (tolerance * largest + 1e-7 * (rounding > 0));
    BOOST_TEST((error <= bound).all().item<bool>(),  // NaN fails too
               name << " result " << i << " of " << f.sizes() << " in " << f.toString() << ": off by "
                    << error.max().item<double>() << " of " << largest);
    if (f.dim() == 4 && e.is_contiguous(at::MemoryFormat::ChannelsLast))
      BOOST_TEST(f.is_contiguous(at::MemoryFormat::ChannelsLast), name << " result " << i);
  }
}

struct Shape {
  std::int64_t n, c, h, w;
};
/// Channels that fill accesses and lanes, and that do not; rows that make several parts; one pixel; nothing.
const std::vector<Shape> kShapes = {{2, 8, 4, 6},   {1, 64, 5, 3},   {3, 3, 7, 5},    {2, 24, 20, 20}, {1, 1, 1, 1},
                                    {1, 300, 3, 2}, {1, 2056, 1, 2}, {2, 1100, 1, 3}, {0, 8, 4, 4},    {70, 4, 2, 2}};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(emulated_kernels, Poisoned)

BOOST_AUTO_TEST_CASE(pointwise_operators) {
  for (const at::ScalarType type : kTypes)
    for (const auto& [n, c, h, w] : kShapes) {
      const at::Tensor x = random({n, c, h, w}, type) * 3, g = random({n, c, h, w}, type), s = random({n, c}) * 0.5 + 1;
      compare("act", {x});
      compare("act_backward", {x, g});
      compare("scale_act", {x, s});
      compare("scale_act_backward", {x, s, g}, 4e-6);
      compare("mp_sum", {x, g, 0.3});
      compare("mp_sum_backward", {g, 0.3});
      if (n == 0) continue;
      compare("pixel_norm_act", {x});
      const std::vector<at::Tensor> normal = run("pixel_norm_act", c10::DispatchKey::CPU, {x.to(at::kFloat)});
      compare("pixel_norm_act_backward", {normal[0].to(type), normal[2], g, x}, 4e-6);
    }
}

BOOST_AUTO_TEST_CASE(more_samples_than_a_grid_has_places) {
  const at::Tensor x = random({66000, 1, 1, 1}), g = random({66000, 1, 1, 1}), s = random({66000, 1});
  compare("scale_act", {x, s});
  compare("scale_act_backward", {x, s, g});
  const at::Tensor coarse = random({70000, 1, 1, 1}), fine = random({70000, 1, 1, 1});
  compare("upsample_cat_act", {coarse, fine});
}

BOOST_AUTO_TEST_CASE(tensors_off_alignment) {
  for (const at::ScalarType type : kTypes) {
    const at::Tensor x = misaligned(random({2, 16, 3, 5}, type)), g = random({2, 16, 3, 5}, type), s = random({2, 16});
    compare("act", {x});
    compare("act_backward", {g, x});
    compare("scale_act", {g, misaligned(s)});
    compare("scale_act_backward", {x, s, g});
    compare("pixel_norm_act", {x});
    compare("mp_sum", {g, x, 0.5});
    compare("upsample_cat_act", {random({2, 16, 3, 5}, type), x});
    compare("group_norm", {x, 4, random({16}), misaligned(random({16})), 1e-5, true}, 4e-6);
    compare("dropout", {x, 0.2, 3, at::arange(2, at::kLong), 1});
  }
  const at::Tensor x = at::randn({2, 3, 6, 8});
  compare("depth_to_space_output", {random({2, 4, 3, 4}), random({2}), misaligned(x), random({2, 3})});
  compare("space_to_depth_input", {misaligned(x), random({2, 3}), x, at::kFloat});
}

BOOST_AUTO_TEST_CASE(joins) {
  for (const at::ScalarType type : kTypes)
    for (const std::int64_t factor : {1, 2})
      for (const auto& [ca, cb] : {std::pair<std::int64_t, std::int64_t>{8, 16}, {3, 5}, {8, 5}, {40, 24}, {2056, 8}})
        for (const auto& [h, w] : {std::pair<std::int64_t, std::int64_t>{3, 5}, {1, 1}, {4, 40}}) {
          if (ca > 1000 && w > 5) continue;
          const at::Tensor coarse = random({2, ca, h, w}, type), fine = random({2, cb, factor * h, factor * w}, type),
                           g = random({2, ca + cb, factor * h, factor * w}, type), other = random(fine.sizes(), type),
                           low = random({2, cb, h, w}, type);
          compare("upsample_cat_act", {coarse, fine});
          compare("upsample_cat_act_backward", {coarse, fine, g});
          const std::vector<double> k{0.5, -1.25, 2};
          compare("upsample_sum", {low, fine, other, k});
          compare("upsample_sum_backward", {fine, factor, k});
        }
}

BOOST_AUTO_TEST_CASE(phases) {
  for (const at::ScalarType type : kTypes)
    for (const auto& [n, c, h, w] : std::vector<Shape>{{2, 8, 3, 5}, {1, 3, 1, 1}, {2, 24, 12, 13}, {1, 2056, 1, 2}}) {
      const at::Tensor s = random({n, c}) * 0.5 + 1, fine = random({n, c, 2 * h, 2 * w}, type);
      compare("phase_sum_scale_act", {random({n, 4 * c, h + 1, w + 1}, type), fine, s});
      compare("phase_sum_scale_act_backward", {fine, s, random(fine.sizes(), type)}, 4e-6);
    }
}

BOOST_AUTO_TEST_CASE(ends_of_the_network) {
  for (const at::ScalarType type : kTypes)
    for (const auto& [n, b, m, h, w] :
         std::vector<std::array<std::int64_t, 5>>{{2, 4, 1, 6, 10}, {1, 1, 0, 2, 2}, {3, 4, 2, 40, 70}}) {
      const at::Tensor bands = at::randn({n, b, h, w}), scales = random({n, b}), maps = at::randn({n, m, h, w});
      compare("space_to_depth_input", {bands, scales, maps, type});
      // A window of a larger field: lines apart, planes apart; and one that begins at an odd pixel.
      compare("space_to_depth_input",
              {at::randn({n, b, h + 3, w + 4}).narrow(2, 1, h).narrow(3, 2, w), scales, maps, type});
      compare("space_to_depth_input", {at::randn({n, b, h, w + 5}).narrow(3, 1, w), scales, maps, type});
      const at::Tensor head = random({n, 4, h / 2, w / 2}, type), head_scale = random({n}), g = at::randn({n, 1, h, w});
      compare("depth_to_space_output", {head, head_scale, bands, scales});
      compare("depth_to_space_output_backward", {head, head_scale, bands, scales, g}, 1e-5);
    }
}

BOOST_AUTO_TEST_CASE(weights) {
  // Rows that fill accesses and that do not; more layers than one launch takes.
  for (const at::ScalarType type : kTypes)
    for (const std::size_t layers : {std::size_t{3}, std::size_t{80}, std::size_t{171}}) {
      std::vector<at::Tensor> w, g, averaged;
      for (std::size_t i = 0; i < layers; ++i) {
        const auto k = static_cast<std::int64_t>(i);
        const std::vector<std::int64_t> shape = i % 3 == 2 ? std::vector<std::int64_t>{5 + k % 2, 7 + k}
                                                           : std::vector<std::int64_t>{3 + k % 5, 4 + k % 3, 3, 3};
        w.push_back(i == 1 ? misaligned(random(shape)) : random(shape));
        g.push_back(random(shape, type));
        averaged.push_back(random(shape));
      }
      compare("normalize_weights", {w, type});
      const std::vector<at::Tensor> all = run("normalize_weights", c10::DispatchKey::CPU, {w, at::kFloat});
      const std::vector<at::Tensor> inverse(all.begin() + static_cast<std::ptrdiff_t>(layers),
                                            all.begin() + static_cast<std::ptrdiff_t>(2 * layers));
      compare("normalize_weights_backward", {w, inverse, g}, 4e-6);
      if (type != at::kFloat) continue;
      compare("force_unit_weights", {w});
      averaged.push_back(at::randn({20001}));  // three chunks
      w.push_back(at::randn({20001}));
      averaged.push_back(at::empty({0}));
      w.push_back(at::empty({0}));
      compare("average_weights", {averaged, w, at::full({}, 0.125)});
    }
}

BOOST_AUTO_TEST_CASE(group_normalisation) {
  for (const at::ScalarType type : kTypes)
    for (const auto& [n, c, h, w, groups] : std::vector<std::array<std::int64_t, 5>>{{2, 16, 4, 6, 4},
                                                                                     {1, 12, 5, 3, 12},
                                                                                     {3, 6, 7, 5, 2},
                                                                                     {2, 64, 20, 20, 1},
                                                                                     {1, 300, 3, 2, 5},
                                                                                     {2, 2056, 1, 2, 8}})
      for (const bool silu : {false, true}) {
        const at::Tensor x = random({n, c, h, w}, type) * 2 + 5, weight = random({c}), bias = random({c}),
                         g = random({n, c, h, w}, type);
        compare("group_norm", {x, groups, weight, bias, 1e-5, silu}, 4e-6);
        const std::vector<at::Tensor> y =
            run("group_norm", c10::DispatchKey::CPU, {x.to(at::kFloat), groups, weight, bias, 1e-5, silu});
        compare("group_norm_backward", {x, groups, weight, bias, y[1], y[2], silu, g}, 1e-5);
      }
}

BOOST_AUTO_TEST_CASE(dropout_drops_the_same) {
  for (const at::ScalarType type : kTypes)
    for (const auto& [n, c, h, w] : kShapes) {
      const at::Tensor x = random({n, c, h, w}, type);
      compare("dropout", {x, 0.37, -5, at::arange(n, at::kLong) * 1000003 - 7, 11});
      compare("dropout", {x, 0.0, 1, at::arange(n, at::kLong), 0});
    }
}

BOOST_AUTO_TEST_CASE(noise_is_the_definition) {
  using namespace cirrus;
  for (const auto& [n, h, w, y0, x0] : std::vector<std::array<std::int64_t, 5>>{{3, 9, 37, 5, 0},
                                                                                {1, 16, 64, 1000, 32},
                                                                                {2, 8, 1, 0, 3},
                                                                                {1, 3, 70, 7, 1},
                                                                                {1, 1, 6, 0, 4294967290},
                                                                                {450, 1, 5, 2, 2}}) {
    kernels::NoiseWindow window{0x123456789ABCDEFull, Purpose::training_noise, {}, 17, y0, x0};
    std::vector<std::int64_t> items;
    for (std::int64_t i = 0; i < n; ++i) {
      window.items.push_back(0xF00000000000000Bull + static_cast<std::uint64_t>(i));
      items.push_back(static_cast<std::int64_t>(window.items.back()));
    }
    at::Tensor expected = at::empty({n, 1, h, w}), found = at::empty({n, 1, h, w});
    kernels::reference::fill_normal(expected, window);
    run("fill_normal", c10::DispatchKey::CUDA,
        {found, static_cast<std::int64_t>(window.seed), static_cast<std::int64_t>(window.purpose), items, 17, y0, x0});
    // float32 of the radius and the angle: 1e-7 of up to 6.
    BOOST_TEST((found - expected).abs().max().item<double>() < 1.5e-6);
  }
}

BOOST_AUTO_TEST_CASE(bands) {
  for (const auto& [n, h, w] : std::vector<std::array<std::int64_t, 3>>{{2, 5, 7}, {1, 64, 32}, {1, 33, 70}, {3, 1, 1}})
    compare("band_pass", {at::randn({n, 1, h, w})});
}

BOOST_AUTO_TEST_CASE(blocks_and_windows) {
  for (const auto& [maps, h, w, s] : std::vector<std::array<std::int64_t, 4>>{
           {2, 3, 5, 4}, {1, 1, 1, 1}, {1, 4, 3, 3}, {1, 2, 2, 40}, {2, 20, 20, 2}}) {
    const at::Tensor t = at::randn({maps, s * h, s * w}, at::kDouble) * 2;
    compare("project_blocks", {t, at::randn({h, w}, at::kDouble) * 5, s}, 1e-13);
    compare("project_blocks", {t * 400, at::randn({h, w}, at::kDouble) * 1e20, s}, 1e-13);
  }
  for (const std::int64_t count : {1, 9, 350}) {
    const at::Tensor windows = at::randn({count, 1, 11, 35});
    std::vector<std::int64_t> members, rows, columns;
    cirrus::Stream stream(cirrus::Address(1, cirrus::Purpose::bootstrap));
    for (std::int64_t k = 0; k < count; ++k) {
      members.push_back(static_cast<std::int64_t>(stream.below(2)));
      rows.push_back(static_cast<std::int64_t>(stream.below(20)));
      columns.push_back(static_cast<std::int64_t>(stream.below(30)));
    }
    compare("blend_windows",
            {at::randn({2, 1, 30, 64}), windows, members, rows, columns, at::rand({count, 11}), at::rand({count, 35})},
            1e-5);
  }
}

BOOST_AUTO_TEST_CASE(every_operator_of_the_cpu_has_a_cuda_kernel) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.getNamespace() != "cirrus" || name.name.starts_with("cirrus::winograd")) continue;  // cuDNN has its own
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op->hasKernelForDispatchKey(c10::DispatchKey::CPU))
      BOOST_TEST(op->hasKernelForDispatchKey(c10::DispatchKey::CUDA), name.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
