// Model files: what is saved is what is loaded, and files that are wrong are refused by name.
#include "enhance/model.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "base/files.h"
#include "base/safetensors.h"
#include "tests/enhance/tiny_model.h"

using namespace cirrus;
using namespace cirrus::enhance;
using nlohmann::json;

namespace {

struct Folder {
  test::ScratchFolder scratch;
  std::filesystem::path path = scratch / "model.safetensors";

  /// The message of the refusal, which must be bad_data.
  std::string refusal() {
    try {
      (void)load_model(path, device::cpu(), at::kFloat);
    } catch (const Error& e) {
      BOOST_TEST(static_cast<int>(e.code()) == static_cast<int>(ExitCode::bad_data), e.what());
      BOOST_TEST(std::string(e.what()).find(path.string()) != std::string::npos, "the file is not named: " << e.what());
      return e.what();
    } catch (const std::exception& e) {
      BOOST_ERROR("another exception: " << e.what());
    }
    return "";
  }
};

json at_path(const json& card, const std::string& pointer, const json& value) {
  json changed = card;
  changed[json::json_pointer(pointer)] = value;
  return changed;
}

json without(json card, const std::string& pointer) {
  const json::json_pointer p(pointer);
  card[p.parent_pointer()].erase(p.back());
  return card;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_files)

BOOST_FIXTURE_TEST_CASE(what_is_saved_is_what_is_loaded, Folder) {
  test::write_tiny_model(path, test::tiny_card(2));
  const Model m = load_model(path, device::cpu(), at::kFloat);
  BOOST_TEST(m.name == "model");
  BOOST_TEST(m.factor == 2);
  BOOST_TEST(m.sha256 == sha256_file(path));
  BOOST_TEST(m.card == test::tiny_card(2));
  BOOST_TEST(m.scale.c[0] == -1.0);
  BOOST_TEST(m.scale.c[3] == 0.1);
  BOOST_TEST(m.trained.usual_beam == 2.3);
  BOOST_TEST(m.trained.input_beam == (std::array<double, 2>{1.5, 3.5}), boost::test_tools::per_element());
  BOOST_TEST(m.trained.signal_to_noise == (std::array<double, 2>{3, 300}), boost::test_tools::per_element());
  diffusion::EdmNetwork fresh(test::tiny_config(), 0, at::kCPU, at::kFloat);
  for (const diffusion::NamedTensor& p : m.network->parameters()) {
    for (const diffusion::NamedTensor& q : fresh.parameters()) {
      if (p.name != q.name) continue;
      if (p.name == "gain.head") {
        BOOST_TEST((p.tensor == 0.5).all().item<bool>());
      } else if (!p.name.starts_with("gain.")) {
        BOOST_TEST(p.tensor.equal(q.tensor), p.name);
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_loaded_model_answers_as_the_one_that_was_saved, Folder) {
  test::write_tiny_model(path);
  const Model a = load_model(path, device::cpu(), at::kFloat), b = load_model(path, device::cpu(), at::kFloat);
  std::vector<std::pair<std::string, at::Tensor>> weights;
  for (const diffusion::NamedTensor& p : a.network->parameters()) weights.emplace_back(p.name, p.tensor);
  save_model(scratch / "again.safetensors", weights, a.card);
  const Model c = load_model(scratch / "again.safetensors", device::cpu(), at::kFloat);
  const at::Tensor x = at::linspace(-1, 1, 16 * 16, at::kFloat).view({1, 1, 16, 16}), sigma = at::full({1}, 0.7f);
  const diffusion::Conditions conditions{at::ones({1, kConditionMaps, 16, 16}), at::zeros({1, kConditionScalars})};
  const at::Tensor answer = a.network->denoise(x, sigma, conditions);
  BOOST_TEST(answer.equal(b.network->denoise(x, sigma, conditions)));
  BOOST_TEST(answer.equal(c.network->denoise(x, sigma, conditions)));
  BOOST_TEST(seconds_per_pixel(const_cast<Model&>(a)) > 0);
}

BOOST_FIXTURE_TEST_CASE(hostile_metadata_are_refused_by_name, Folder) {
  const json card = test::tiny_card();
  const std::vector<std::pair<json, std::string>> mutations = {
      {json("text"), "not a Cirrus model"},
      {json::array({1, 2}), "not a Cirrus model"},
      {at_path(card, "/format", 1), "not a Cirrus model"},
      {at_path(card, "/format", "cirrus-model/9"), "not a Cirrus model"},
      {without(card, "/format"), "not a Cirrus model"},
      {at_path(card, "/network", "sr3"), "sr3"},
      {at_path(card, "/network", json::object()), "metadata"},
      {at_path(card, "/factor", 1), "factor 1"},
      {at_path(card, "/factor", -4), "factor -4"},
      {at_path(card, "/factor", 1e9), "whole number"},
      {at_path(card, "/factor", 4.5), "4.5"},
      {at_path(card, "/factor", "4"), "whole number"},
      {without(card, "/factor"), "factor"},
      {at_path(card, "/transform/residual_scale", json::array({1, 2})), "residual scale"},
      {at_path(card, "/transform/residual_scale", "none"), "residual scale"},
      {at_path(card, "/transform/residual_scale/2", 1e300), "residual scale"},
      {at_path(card, "/transform/residual_scale/2", nullptr), "metadata"},
      {without(card, "/transform"), "transform"},
      {without(card, "/beams"), "beams"},
      {at_path(card, "/beams/output_pixels", 0), "output beam"},
      {at_path(card, "/beams/output_pixels", "wide"), "metadata"},
      {at_path(card, "/beams/output_range", json::array({3, 1})), "range"},
      {at_path(card, "/beams/input_range_lr_pixels", json::array({1})), "metadata"},
      {at_path(card, "/noise/snr", json::array({-1, 1})), "range"},
      {without(card, "/noise/snr"), "snr"},
      {without(card, "/network_config"), "network_config"},
      {at_path(card, "/network_config/widths", json::array()), "configuration"},
      {at_path(card, "/network_config/widths", json::array({4096, 4096, 4096, 4096})), "larger than"},
      {at_path(card, "/network_config/widths", json::array({-8, 16})), "configuration"},
      {at_path(card, "/network_config/widths", std::vector<int>(8, 4096)), "larger than"},
      {at_path(card, "/network_config/blocks", 64), "larger than"},
      {at_path(card, "/network_config/middle_blocks", 64), "larger than"},
      {at_path(card, "/network_config/blocks", 2), "is missing"},
      {at_path(card, "/network_config/embedding", 32), "shape"},
      {at_path(card, "/network_config/condition_maps", 4), "conditions"},
      {at_path(card, "/network_config/band_rms", json::array({0, 1, 1, 1})), "configuration"},
      {at_path(card, "/network_config/band_rms", 1), "configuration"},
  };
  for (const auto& [changed, part] : mutations) {
    test::write_tiny_model(path, changed);
    const std::string message = refusal();
    BOOST_TEST(message.find(part) != std::string::npos, "'" << message << "' should say " << part);
  }
}

BOOST_FIXTURE_TEST_CASE(broken_files_are_refused, Folder) {
  test::write_tiny_model(path);
  const std::string whole = read_text(path);
  const auto with_bytes = [&](const std::string& bytes) {
    write_text(path, bytes, true);
    return refusal();
  };
  BOOST_TEST(!with_bytes("").empty());
  BOOST_TEST(!with_bytes("no model").empty());
  BOOST_TEST(!with_bytes(whole.substr(0, whole.size() / 2)).empty());
  BOOST_TEST(!with_bytes(whole.substr(0, 100)).empty());
  BOOST_TEST(!with_bytes(whole + "x").empty());
  BOOST_TEST(!with_bytes(std::string(8, '\xff') + whole.substr(8)).empty());
  std::string not_finite = whole;  // the last float32 of the file
  not_finite.replace(whole.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4));
  const std::string message = with_bytes(not_finite);
  BOOST_TEST(message.find("not finite") != std::string::npos, message);
  // Metadata that are no JSON, and none.
  const float one = 1;
  const std::vector<TensorBytes> little{{"w", "F32", {1}, std::as_bytes(std::span(&one, 1))}};
  write_safetensors(path, little, {{"cirrus", "{broken"}}, true);
  BOOST_TEST(refusal().find("not a Cirrus model") != std::string::npos);
  write_safetensors(path, little, {}, true);
  BOOST_TEST(refusal().find("not a Cirrus model") != std::string::npos);
  write_safetensors(path, little, {{"cirrus", test::tiny_card().dump()}}, true);
  BOOST_TEST(refusal().find("larger than") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(models_are_found_by_name_and_by_file, Folder) {
  const test::Environment folder("CIRRUS_MODELS", scratch.path().c_str());
  test::write_tiny_model(scratch / "dust-x3.safetensors", test::tiny_card(3));
  BOOST_TEST(find_model("", 3) == scratch / "dust-x3.safetensors");
  BOOST_TEST(find_model("dust-x3", 4) == scratch / "dust-x3.safetensors");
  BOOST_TEST(find_model((scratch / "dust-x3.safetensors").string(), 4) == scratch / "dust-x3.safetensors");
  try {
    (void)find_model("dust-x77", 4);
    BOOST_ERROR("found a model that is not there");
  } catch (const Error& e) {
    BOOST_TEST(static_cast<int>(e.code()) == 66);
    BOOST_TEST(std::string(e.what()).find("dust-x77") != std::string::npos);
    BOOST_TEST(std::string(e.what()).find(scratch.path().string()) != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
