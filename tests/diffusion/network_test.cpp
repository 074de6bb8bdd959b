// The network: what its weights are called, what it costs, how far it sees, and that every way to run it gives the same
// estimate.
#include "diffusion/edm_network.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"
#include "diffusion/preconditioning.h"
#include "tests/diffusion/small_network.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
using diffusion::EdmConfig;
using diffusion::EdmNetwork;

diffusion::Conditions conditions(const EdmConfig& c, std::int64_t n, std::int64_t h, std::int64_t w) {
  return {normals({n, c.condition_maps, h, w}, 31), normals({n, c.condition_scalars}, 32)};
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

/// Largest distance (Chebyshev, pixels) at which a NaN in one pixel of `x` or of the maps shows: what depends on the
/// pixel at all becomes NaN, however weakly.
std::int64_t measured_reach(const EdmConfig& config, std::int64_t size, bool in_maps) {
  c10::NoGradGuard no_grad;
  EdmNetwork network(config, 3, at::kCPU, at::kFloat);
  diffusion::perturb_gains(network, 0.5);
  std::int64_t reach = 0;
  const std::int64_t a = network.alignment(), middle = size / 2 / a * a;
  for (const std::int64_t shift : {std::int64_t{0}, a - 1}) {  // both ends of a pixel of the coarsest level
    const std::int64_t y = middle + shift, x = middle + a - 1 - shift;
    at::Tensor field = normals({1, 1, size, size}, 33);
    diffusion::Conditions c = conditions(config, 1, size, size);
    (in_maps ? c.maps : field)[0][0][y][x] = std::nan("");
    const at::Tensor hit = network.denoise(field, at::full({1}, 0.7), c)[0][0].isnan().nonzero();
    BOOST_TEST_REQUIRE(hit.size(0) > 0);
    reach = std::max(reach, (hit - at::tensor({y, x}, at::kLong)).abs().max().item<std::int64_t>());
  }
  return reach;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(network)

BOOST_AUTO_TEST_CASE(a_fresh_network_leaves_preconditioning_alone) {
  // Its gains are zero, so F = 0 and D(x) = c_skip x.
  EdmNetwork network(small_config(), 1, at::kCPU, at::kFloat);
  const at::Tensor x = normals({2, 1, 32, 32}, 34), sigma = at::tensor({0.2f, 5.f});
  const at::Tensor d = network.denoise(x, sigma, conditions(small_config(), 2, 32, 32)).detach();
  BOOST_TEST(largest_difference(d, diffusion::precondition(sigma).skip * x) < 1e-6);
}

BOOST_AUTO_TEST_CASE(weights_have_fixed_names_order_and_addresses) {
  EdmNetwork network(small_config(), 77, at::kCPU, at::kFloat);
  const std::vector<diffusion::NamedTensor> all = network.parameters();
  const std::vector<std::string> expected{"stem",
                                          "encoder.0.0.first",
                                          "encoder.0.0.second",
                                          "encoder.1.0.skip",
                                          "encoder.1.0.first",
                                          "encoder.1.0.second",
                                          "middle.0.first",
                                          "middle.0.second",
                                          "decoder.0.0.skip",
                                          "decoder.0.0.first",
                                          "decoder.0.0.second",
                                          "head",
                                          "embed.noise",
                                          "embed.scalars",
                                          "embed.scales",
                                          "embed.bands",
                                          "gain.head",
                                          "gain.scales",
                                          "gain.bands"};
  BOOST_TEST_REQUIRE(all.size() == expected.size());
  for (std::size_t i = 0; i < all.size(); ++i) BOOST_TEST(all[i].name == expected[i]);
  // Weight k holds the normals at address (seed, weights, k), in row-major order of [out, in, height, width].
  for (std::size_t k = 0; k + 3 < all.size(); ++k) {
    Stream stream(Address(77, Purpose::weights, k));
    const at::Tensor flat = all[k].tensor.contiguous().view(-1);
    for (std::int64_t i = 0; i < 10; ++i) BOOST_TEST(flat[i].item<float>() == static_cast<float>(stream.normal()));
  }
  // parameters() are the network's own: what is written there counts.
  all[16].tensor.fill_(2);
  BOOST_TEST(network.parameters()[16].tensor.item<float>() == 2);
}

BOOST_AUTO_TEST_CASE(the_default_network_has_the_parameters_and_operations_of_its_layers) {
  EdmConfig config;
  EdmNetwork network(config, 0, at::kCPU, at::kFloat);
  std::int64_t parameters = 0;
  std::set<std::string> names;
  for (const auto& p : network.parameters()) parameters += p.tensor.numel(), names.insert(p.name);
  BOOST_TEST(parameters == 841157);  // counted in a file of this network by another program
  BOOST_TEST(names.size() == network.parameters().size());

  struct Layer {
    double out, in, taps, stride;
  };
  const std::vector<Layer> layers{{32, 32, 9, 2},                   // stem: (4 + 3 + 1) planes by 2 x 2
                                  {32, 32, 9, 2},  {32, 32, 9, 2},  // encoder 0
                                  {64, 32, 1, 4},  {64, 64, 9, 4},  {64, 64, 9, 4},  // encoder 1
                                  {96, 64, 1, 8},  {96, 96, 9, 8},  {96, 96, 9, 8},  // encoder 2
                                  {96, 96, 9, 8},  {96, 96, 9, 8},  {96, 96, 9, 8}, {96, 96, 9, 8},
                                  {64, 160, 1, 4}, {64, 160, 9, 4}, {64, 64, 9, 4},  // decoder 1, on 96 + 64
                                  {32, 96, 1, 2},  {32, 96, 9, 2},  {32, 32, 9, 2},  // decoder 0, on 64 + 32
                                  {4, 32, 9, 2}};
  double flops = 0;
  for (const Layer& l : layers) flops += 2 * l.out * l.in * l.taps / (l.stride * l.stride);
  BOOST_TEST(network.flops(64, 48) == 64 * 48 * flops, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(network.alignment() == 8);
}

BOOST_AUTO_TEST_CASE(nothing_farther_away_than_the_receptive_radius_counts) {
  // No multiples of 16: convolutions of those work on tiles, all of which a NaN takes along.
  EdmConfig small = small_config(), deeper = small_config(), product;
  small.widths = {8, 12};
  deeper.widths = {4, 6, 8};
  deeper.blocks = 2;
  product.widths = {20, 36, 50};
  for (const EdmConfig& config : {small, deeper, product}) {
    EdmNetwork network(config, 0, at::kCPU, at::kFloat);
    const std::int64_t claimed = network.receptive_radius();
    const std::int64_t reach = measured_reach(config, 2 * claimed + 2 * network.alignment(), false);
    BOOST_TEST(reach <= claimed);
    // A radius far above the truth would make exact tiling pay for nothing.
    BOOST_TEST(static_cast<double>(claimed) <= 1.6 * static_cast<double>(reach),
               claimed << " claimed, " << reach << " measured");
    BOOST_TEST(claimed % network.alignment() == 0);
  }
  EdmNetwork network(small, 0, at::kCPU, at::kFloat);
  BOOST_TEST(measured_reach(small, 2 * network.receptive_radius() + 8, true) <= network.receptive_radius());
}

BOOST_AUTO_TEST_CASE(what_lies_beyond_the_receptive_radius_changes_float32_by_rounding_alone) {
  const c10::NoGradGuard no_grad;
  EdmNetwork network(EdmConfig(), 3, at::kCPU, at::kFloat);
  diffusion::perturb_gains(network, 0.5);
  const std::int64_t radius = network.receptive_radius(), side = 2 * radius + 64;
  at::Tensor x = normals({1, 1, side, side}, 33);
  const diffusion::Conditions c = conditions(EdmConfig(), 1, side, side);
  const at::Tensor sigma = at::full({1}, 0.7), before = network.denoise(x, sigma, c);
  x = x.clone();
  x[0][0][side - 1][side - 1] += 5;
  const at::Tensor changed = (network.denoise(x, sigma, c) - before).abs()[0][0];
  const std::int64_t kept = side - 1 - radius;
  BOOST_TEST(changed.narrow(0, 0, kept).narrow(1, 0, side).max().item<double>() < 3e-5);
  BOOST_TEST(changed.narrow(0, 0, side).narrow(1, 0, kept).max().item<double>() < 3e-5);
  BOOST_TEST(changed.max().item<double>() > 0.01);
}

BOOST_AUTO_TEST_CASE(shifts_by_the_alignment_shift_the_estimate) {
  c10::NoGradGuard no_grad;
  EdmNetwork network(small_config(), 5, at::kCPU, at::kFloat);
  diffusion::perturb_gains(network, 0.5);
  const std::int64_t a = network.alignment(), r = network.receptive_radius(), size = 2 * r + 32;
  const at::Tensor x = normals({1, 1, size + a, size + a}, 35), sigma = at::full({1}, 0.4);
  const diffusion::Conditions c = conditions(small_config(), 1, size + a, size + a);
  const auto window = [&](std::int64_t y0, std::int64_t x0) {
    const auto cut = [&](const at::Tensor& t) { return t.narrow(2, y0, size).narrow(3, x0, size); };
    // The inner part of the window, which does not see its borders, at the same place of the field.
    return network.denoise(cut(x), sigma, {cut(c.maps), c.scalars})
        .narrow(2, r + a - y0, 32 - a)
        .narrow(3, r + a - x0, 32 - a);
  };
  const at::Tensor here = window(0, 0);
  BOOST_TEST(largest_difference(here, window(a, 0)) < 1e-5);
  BOOST_TEST(largest_difference(here, window(0, a)) < 1e-5);
  BOOST_TEST(largest_difference(here, window(a, a)) < 1e-5);
}

BOOST_AUTO_TEST_CASE(preparation_for_sampling_changes_no_estimate) {
  c10::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    EdmNetwork network(small_config(), 6, at::kCPU, type);
    diffusion::perturb_gains(network, 0.5);
    const at::Tensor x = normals({2, 1, 48, 32}, 36), sigma = at::tensor({0.05f, 20.f});
    const diffusion::Conditions c = conditions(small_config(), 2, 48, 32);
    const at::Tensor training = network.denoise(x, sigma, c);
    network.prepare_for_sampling(type);
    BOOST_TEST(at::equal(network.denoise(x, sigma, c), training));
  }
}

BOOST_AUTO_TEST_CASE(an_update_ends_the_preparation_and_its_dtype) {
  c10::NoGradGuard no_grad;
  EdmNetwork network(small_config(), 6, at::kCPU, at::kFloat);
  diffusion::perturb_gains(network, 0.5);
  network.after_update();
  const at::Tensor x = normals({1, 1, 32, 32}, 37), sigma = at::tensor({0.3f});
  const diffusion::Conditions c = conditions(small_config(), 1, 32, 32);
  const at::Tensor before = network.denoise(x, sigma, c);
  network.prepare_for_sampling(at::kBFloat16);
  const at::Tensor half = network.denoise(x, sigma, c);
  BOOST_TEST(largest_difference(half, before) > 0);
  // bfloat16 rounds each of about ten layers to 2^-9; estimates are of size 1.
  BOOST_TEST((half - before).square().mean().sqrt().item<double>() < 0.03);
  network.parameters()[0].tensor.mul_(-1);
  BOOST_TEST(at::equal(network.denoise(x, sigma, c), half));  // prepared: the old weights stand
  network.parameters()[0].tensor.mul_(-1);
  network.after_update();
  BOOST_TEST(largest_difference(network.denoise(x, sigma, c), before) < 1e-5);
  // Forced weights: each output channel at rms 1.
  for (const auto& p : network.parameters())
    if (!p.name.starts_with("gain"))
      BOOST_TEST(largest_difference(p.tensor.flatten(1).square().mean(1), at::ones({p.tensor.size(0)})) < 1e-5);
}

BOOST_AUTO_TEST_CASE(samples_of_a_batch_do_not_mix) {
  c10::NoGradGuard no_grad;
  EdmNetwork network(small_config(), 8, at::kCPU, at::kFloat);
  diffusion::perturb_gains(network, 0.5);
  const at::Tensor x = normals({3, 1, 32, 40}, 38), sigma = at::tensor({0.05f, 1.f, 30.f});
  const diffusion::Conditions c = conditions(small_config(), 3, 32, 40);
  const at::Tensor all = network.denoise(x, sigma, c);
  for (std::int64_t i = 0; i < 3; ++i) {
    const at::Tensor one =
        network.denoise(x.narrow(0, i, 1), sigma.narrow(0, i, 1), {c.maps.narrow(0, i, 1), c.scalars.narrow(0, i, 1)});
    BOOST_TEST(largest_difference(one, all.narrow(0, i, 1)) < 1e-5 * all.abs().max().item<double>());
  }
}

BOOST_AUTO_TEST_CASE(the_loss_is_the_weighted_error_of_the_estimate) {
  c10::NoGradGuard no_grad;
  EdmNetwork network(small_config(), 9, at::kCPU, at::kFloat);
  diffusion::perturb_gains(network, 0.5);
  const at::Tensor x0 = 0.5 * normals({4, 1, 32, 32}, 39), noise = normals({4, 1, 32, 32}, 40),
                   sigma = at::tensor({0.05f, 0.5f, 2.f, 10.f});
  const diffusion::Conditions c = conditions(small_config(), 4, 32, 32);
  const at::Tensor s = sigma.view({4, 1, 1, 1}),
                   weight = (s.square() + 0.25) / (0.5 * s).square();  // lambda of Karras et al. 2022, Table 1
  const at::Tensor expected = (weight * (network.denoise(x0 + s * noise, sigma, c) - x0).square()).mean();
  BOOST_TEST(network.loss(x0, noise, sigma, c).item<double>() == expected.item<double>(),
             boost::test_tools::tolerance(1e-4));
}

BOOST_AUTO_TEST_CASE(every_parameter_gets_the_gradient_of_the_loss) {
  EdmNetwork network(small_config(), 10, at::kCPU, at::kFloat);
  diffusion::perturb_gains(network, 0.5);
  std::vector<at::Tensor> parameters;
  for (const auto& p : network.parameters()) parameters.push_back(p.tensor.requires_grad_(true));
  const at::Tensor x0 = 0.5 * normals({2, 1, 32, 32}, 41), noise = normals({2, 1, 32, 32}, 42),
                   sigma = at::tensor({0.2f, 3.f});
  const diffusion::Conditions c = conditions(small_config(), 2, 32, 32);
  const auto gradients = torch::autograd::grad({network.loss(x0, noise, sigma, c)}, parameters);
  c10::NoGradGuard no_grad;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const double slope = gradients[k].norm().item<double>();
    const std::string name = network.parameters()[k].name;
    BOOST_TEST_REQUIRE(slope > 0, name);
    // Along its own gradient the loss changes by |g|: central differences with a step that changes it by about 1%.
    const double loss = network.loss(x0, noise, sigma, c).item<double>();
    const double h = std::min(0.005 * loss / slope, 0.005 * parameters[k].norm().item<double>());
    const at::Tensor direction = gradients[k] * (h / slope), kept = parameters[k].clone();
    parameters[k].add_(direction);
    const double up = network.loss(x0, noise, sigma, c).item<double>();
    parameters[k].copy_(kept - direction);
    const double down = network.loss(x0, noise, sigma, c).item<double>();
    parameters[k].copy_(kept);
    // Float32 knows a loss to about 1e-6 of it, a difference of 1% to 1e-3 or so; curvature and kinks add as much
    // again.
    BOOST_TEST((up - down) / (2 * h) == slope, boost::test_tools::tolerance(0.03) << name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(network_config)

BOOST_AUTO_TEST_CASE(a_configuration_survives_json) {
  EdmConfig c = small_config();
  c.band_rms = {0.1, 0.2, 0.3, 0.4};
  const EdmConfig back = EdmConfig::from_json(nlohmann::json::parse(c.to_json().dump()));
  BOOST_TEST(back.to_json() == c.to_json());
}

BOOST_AUTO_TEST_CASE(hostile_values_are_bad_data_that_names_the_key) {
  const auto big = 9223372036854775807;
  const std::vector<std::pair<std::string, std::vector<nlohmann::json>>> values{
      {"widths",
       {nullptr,
        8,
        "8",
        nlohmann::json::array(),
        nlohmann::json::object(),
        {0},
        {-8},
        {8, 4097},
        {8.5},
        {"8"},
        {true},
        {big},
        {18446744073709551615u},
        {8, nullptr},
        {1, 1, 1, 1, 1, 1, 1, 1, 1}}},
      {"blocks", {nullptr, 0, -1, 65, 1.5, "1", true, big, 1e300, {1}}},
      {"middle_blocks", {nullptr, -1, 65, 0.5, "1", false, 18446744073709551615u}},
      {"embedding", {nullptr, 0, 4097, 8.25, "8", nlohmann::json::object()}},
      {"condition_maps", {nullptr, -1, 65, "3", 2.5}},
      {"condition_scalars", {nullptr, -1, 65, "4", 2.5}},
      {"band_rms",
       {nullptr,
        1,
        "1",
        {1, 1, 1},
        {1, 1, 1, 1, 1},
        {1, 1, 1, 0},
        {1, 1, 1, -1},
        {1, 1, 1, "1"},
        {1, 1, 1, nullptr},
        {1, 1, 1, true},
        nlohmann::json::object()}},
  };
  const auto refused = [](const nlohmann::json& json, const std::string& key) {
    try {
      EdmConfig::from_json(json);
      BOOST_ERROR(json.dump() << " was accepted");
    } catch (const Error& e) {
      BOOST_TEST((e.code() == ExitCode::bad_data), json.dump());
      BOOST_TEST(std::string(e.what()).find(key) != std::string::npos, e.what());
    }
  };
  for (const auto& [key, list] : values) {
    for (const nlohmann::json& value : list) {
      nlohmann::json json = small_config().to_json();
      json[key] = value;
      refused(json, key);
    }
    nlohmann::json without = small_config().to_json();
    without.erase(key);
    refused(without, key);
  }
  for (const nlohmann::json& json :
       {nlohmann::json(), nlohmann::json(3), nlohmann::json::array(), nlohmann::json("edm")})
    refused(json, "edm");
}

BOOST_AUTO_TEST_SUITE_END()
