// The super-resolution task: a resumed run gets its constants from the checkpoint or is refused, and the model that is
// saved is the network that was trained.
#include "enhance/training_task.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "tests/enhance/tiny_model.h"

using namespace cirrus;
using namespace cirrus::enhance;
using nlohmann::json;

namespace {

DenoisingOptions tiny_options(std::uint64_t seed) {
  DenoisingOptions o;
  o.network = test::tiny_config();
  o.patch = 32;
  o.fields.size = 64;
  o.calibration_fields = 16;
  o.pool.window = 4;
  o.seed = seed;
  return o;
}

const json kState{{"residual_scale", {-1, 0, 0, 0.1, 0, 0, -0.5}}, {"band_rms", {0.2, 0.3, 0.1, 0.05}}};

}  // namespace

BOOST_AUTO_TEST_SUITE(training_task)

BOOST_AUTO_TEST_CASE(a_checkpoint_without_the_models_constants_is_refused_with_their_name) {
  DenoisingTask task(tiny_options(0), device::cpu(), at::kFloat);
  const auto refusal = [&](const json& state) -> std::string {
    try {
      task.prepare(&state);
    } catch (const Error& e) {
      BOOST_TEST(static_cast<int>(e.code()) == static_cast<int>(ExitCode::bad_data));
      return e.what();
    }
    return "";
  };
  BOOST_TEST(refusal(kState) == "");
  BOOST_TEST(task.state() == kState);
  for (const char* key : {"residual_scale", "band_rms"}) {
    json state = kState;
    state.erase(key);
    BOOST_TEST(refusal(state).find(key) != std::string::npos, refusal(state));
    for (const json& wrong : {json(), json("none"), json(1), json::array(), json{1, "two"}, json::object()}) {
      state[key] = wrong;
      BOOST_TEST(!refusal(state).empty(), key << " = " << wrong.dump() << " was accepted");
    }
  }
  for (const json& wrong : {json(), json::object(), json::array(), json("state")})
    BOOST_TEST(refusal(wrong).find("constants") != std::string::npos, refusal(wrong));
}

BOOST_AUTO_TEST_CASE(a_new_run_measures_what_a_resumed_one_is_told) {
  DenoisingTask measured(tiny_options(0), device::cpu(), at::kFloat), told(tiny_options(0), device::cpu(), at::kFloat);
  measured.prepare(nullptr);
  const json state = measured.state();
  told.prepare(&state);
  BOOST_TEST(told.state() == state);
  BOOST_TEST(told.fingerprint() == measured.fingerprint());
}

// The file holds no seed: what the network computes must follow from its weights and its card.
BOOST_AUTO_TEST_CASE(a_network_of_any_seed_answers_the_same_once_it_is_loaded) {
  const test::ScratchFolder folder;
  const at::Tensor x = at::linspace(-1, 1, 32 * 32, at::kFloat).view({1, 1, 32, 32}), sigma = at::full({1}, 0.7f);
  const diffusion::Conditions conditions{at::ones({1, kConditionMaps, 32, 32}), at::zeros({1, kConditionScalars})};
  for (const std::uint64_t seed : {0, 5}) {
    diffusion::EdmNetwork network(test::tiny_config(), seed, at::kCPU, at::kFloat);
    std::vector<std::pair<std::string, at::Tensor>> weights;
    for (const diffusion::NamedTensor& p : network.parameters()) {
      if (p.name.starts_with("gain.")) p.tensor.fill_(0.5);  // zero at first, which would hide the noise level
      weights.emplace_back(p.name, p.tensor);
    }
    network.after_update();
    save_model(folder / "model.safetensors", weights, test::tiny_card());
    const Model loaded = load_model(folder / "model.safetensors", device::cpu(), at::kFloat);
    network.prepare_for_sampling(at::kFloat);
    const at::Tensor trained = network.denoise(x, sigma, conditions);
    BOOST_TEST(loaded.network->denoise(x, sigma, conditions).equal(trained), "seed " << seed);
    BOOST_TEST(trained.abs().max().item<float>() > 0.01f);
  }
}

BOOST_AUTO_TEST_SUITE_END()
