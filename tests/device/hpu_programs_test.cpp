// The programs on the stand-in for an Intel Gaudi card: what they queue, compile and read, their results against the
// CPU's, and what they do when the card is full or in use.
#include "fits/image.h"
#include "tests/device/fake_card.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;

std::string configuration(const char* name) {
  const char* source = std::getenv("CIRRUS_SOURCE");
  BOOST_TEST_REQUIRE(source != nullptr);
  return std::string(source) + "/configs/train/" + name;
}

void synthesise(const fs::path& folder, int size) {
  const Outcome o = run("cirrus-data", {"synth", "-o", "map.fits", "--size", std::to_string(size), "--seed", "5"},
                        {.folder = folder});
  BOOST_TEST_REQUIRE(o.code == 0, o.err);
}

std::vector<std::string> enhance_words(const std::string& output, const std::vector<std::string>& more) {
  std::vector<std::string> words{"enhance", "map.fits", "-o",       output,        "--dtype", "fp32",
                                 "--beam",  "none",     "--no-png", "--overwrite", "--device"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Largest difference of two maps relative to the largest value.
double difference(const fs::path& found, const fs::path& expected) {
  const fits::Image a = fits::read_image(found.string()), b = fits::read_image(expected.string());
  BOOST_TEST_REQUIRE(a.pixels.size() == b.pixels.size());
  BOOST_TEST_REQUIRE(!a.pixels.empty());
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    largest = std::max(largest, std::abs(b.pixels[i]));
    worst = std::max(worst, std::abs(a.pixels[i] - b.pixels[i]));
  }
  return worst / largest;
}

/// SR3 as the published configuration has it, but small; of `batch` samples a step.
std::vector<std::string> sr3_words(const std::string& steps, const std::string& batch,
                                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"train",    "--config", configuration("sr3-64-256.toml"), "--out", "run",
                                 "--device", "hpu"};
  for (const char* value :
       {"sr3.inner=8", "sr3.multipliers=[1,2,2]", "sr3.blocks=1", "sr3.attention_level=2", "sr3.groups=4",
        "task.patch=32", "fields.size=32", "fields.window=8", "fields.loader_threads=1"})
    words.insert(words.end(), {"--set", value});
  words.insert(words.end(), {"--set", "train.steps=" + steps, "--set", "train.batch=" + batch});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Only its first steps compile, and only its end, where the checkpoint is written, compiles or reads again.
void check_steps(const CardRun& r, std::int64_t steps) {
  BOOST_TEST_REQUIRE(r.outcome.code == 0, r.outcome.err);
  const std::int64_t flushes = r.count("flushes");
  BOOST_TEST(flushes >= 2 * steps);  // after each backward pass and each update
  BOOST_TEST(r.report.at("fallbacks").empty(), r.report.at("fallbacks").dump());
  BOOST_TEST(r.count("double_operations") == 0);
  for (const std::int64_t at : r.report.at("host_reads_at")) BOOST_TEST(at == flushes);
  for (const std::int64_t at : r.report.at("compiled_at")) BOOST_TEST((at < 4 || at == flushes), at);
}

/// A limit between what two runs need.
std::int64_t between(const CardRun& less, const CardRun& more) {
  BOOST_TEST_REQUIRE(less.outcome.code == 0, less.outcome.err);
  BOOST_TEST_REQUIRE(more.outcome.code == 0, more.outcome.err);
  const std::int64_t low = less.count("peak_bytes"), high = more.count("peak_bytes");
  BOOST_TEST_REQUIRE(high > low + low / 20);
  return (low + high) / 2;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hpu_programs)

BOOST_AUTO_TEST_CASE(enhance_queues_all_of_a_step_and_gives_the_cpus_map) {
  const ScratchFolder folder;
  synthesise(folder.path(), 48);
  const auto enhance = [&](const std::string& device, const std::string& steps) {
    const CardRun r =
        run_on_card(folder.path(), enhance_words(device + ".fits", {device, "--members", "2", "--steps", steps}));
    BOOST_TEST_REQUIRE(r.outcome.code == 0, r.outcome.err);
    return r;
  };
  enhance("cpu", "6");
  const CardRun few = enhance("hpu", "4"), more = enhance("hpu", "6");
  BOOST_TEST(more.report.at("fallbacks").empty(), more.report.at("fallbacks").dump());
  BOOST_TEST(more.count("compiles") == few.count("compiles"));  // no graph of its own for each step
  BOOST_TEST(more.count("host_reads") == few.count("host_reads"));
  BOOST_TEST(more.count("forced_flushes") == 0);
  BOOST_TEST(more.count("double_operations") == 0);
  BOOST_TEST(difference(folder / "hpu.fits", folder / "cpu.fits") <= 1e-5);  // float32 with other kernels
}

BOOST_AUTO_TEST_CASE(devices_lists_a_card_in_use_with_the_reason_and_the_others) {
  const Outcome o = run("cirrus", {"devices", "--json"}, {.environment = card({{"CIRRUS_FAKE_HPU_FAULT", "in_use"}})});
  BOOST_TEST_REQUIRE(o.code == 0, o.err);
  bool cpu = false, hpu = false;
  const auto listed = nlohmann::json::parse(o.out);
  for (const nlohmann::json& d : listed.at("devices")) {
    if (d.at("device") == "cpu") cpu = d.at("available");
    if (d.at("device") != "hpu:0") continue;
    hpu = true;
    BOOST_TEST(d.at("available") == false);
    BOOST_TEST(contains(d.at("reason"), "in use by another process"), d.at("reason"));
  }
  BOOST_TEST(cpu);
  BOOST_TEST(hpu);
  const Outcome text = run("cirrus", {"devices"}, {.environment = card({{"CIRRUS_FAKE_HPU_FAULT", "in_use"}})});
  BOOST_TEST(text.code == 0);
  BOOST_TEST(contains(text.out, "hpu:0   not available: "), text.out);
  const Outcome there = run("cirrus", {"devices"}, {.environment = card()});
  BOOST_TEST(contains(there.out, "hpu:0   Intel Gaudi 2"), there.out);
}

BOOST_AUTO_TEST_CASE(the_doctor_tests_a_card_and_lists_one_in_use) {
  const ScratchFolder folder;
  const auto examined = [&](Variables environment) {
    environment["CIRRUS_FAKE_HPU_MEMORY"] = "2000000000";  // which the doctor fills
    const Outcome o = run("cirrus-scale", {"doctor", "-o", "report.json", "--overwrite"},
                          {.folder = folder.path(), .environment = card(environment)});
    BOOST_TEST_REQUIRE(o.code == 0, o.out + o.err);
    return nlohmann::json::parse(contents(folder / "report.json"));
  };
  bool found = false;
  const nlohmann::json report = examined({});
  for (const nlohmann::json& d : report.at("devices")) {
    BOOST_TEST(d.at("passed") == true, d.dump());
    if (d.at("device") != "hpu:0") continue;
    found = true;
    BOOST_TEST(d.at("name") == "Intel Gaudi 2");
    BOOST_TEST(d.at("versions").contains("plug-in"));
    BOOST_TEST(d.at("checks").size() >= 7u);
  }
  BOOST_TEST(found);
  found = false;
  const nlohmann::json other = examined({{"CIRRUS_FAKE_HPU_FAULT", "in_use"}});
  for (const nlohmann::json& d : other.at("missing"))
    if (d.at("device") == "hpu:0") found = contains(d.at("reason"), "in use by another process");
  BOOST_TEST(found);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(hpu_memory)

BOOST_AUTO_TEST_CASE(train_says_which_parts_of_a_batch_fit_and_they_do) {
  const ScratchFolder folder;
  const auto train = [&](int parts, std::int64_t memory) {
    return run_on_card(folder.path(),
                       sr3_words("2", "8", {"--set", "train.accumulation=" + std::to_string(parts), "--overwrite"}),
                       memory);
  };
  const std::int64_t limit = between(train(4, 0), train(1, 0));
  const CardRun full = train(1, limit);
  BOOST_TEST(full.outcome.code == 70, full.outcome.err);
  BOOST_TEST(contains(full.outcome.err, "A step of 8 samples does not fit into the memory of Intel Gaudi 2"),
             full.outcome.err);
  const std::string advice = "--set train.accumulation=";
  const std::size_t at = full.outcome.err.find(advice);
  BOOST_TEST_REQUIRE(at != std::string::npos, full.outcome.err);
  const int parts = std::stoi(full.outcome.err.substr(at + advice.size()));
  BOOST_TEST((parts == 2 || parts == 4), parts);
  const CardRun fits = train(parts, limit);
  BOOST_TEST(fits.outcome.code == 0, fits.outcome.err);
  BOOST_TEST(fs::exists(folder / "run/model.safetensors"));
  // Where not even the weights fit, that is said.
  const CardRun none = train(1, 100000);
  BOOST_TEST(none.outcome.code == 70);
  BOOST_TEST(contains(none.outcome.err, "use a smaller network"), none.outcome.err);
}

BOOST_AUTO_TEST_CASE(enhance_goes_on_with_less_at_once_and_gives_the_same_map) {
  const ScratchFolder folder;
  synthesise(folder.path(), 32);
  const auto enhance = [&](const std::string& output, const std::string& members, std::int64_t memory) {
    return run_on_card(folder.path(), enhance_words(output, {"hpu", "--members", members, "--steps", "3"}), memory);
  };
  const std::int64_t limit = between(enhance("one.fits", "1", 0), enhance("all.fits", "4", 0));
  const CardRun less = enhance("less.fits", "4", limit);
  BOOST_TEST_REQUIRE(less.outcome.code == 0, less.outcome.err);
  BOOST_TEST(contains(less.outcome.err, "Out of memory on Intel Gaudi 2: going on with"), less.outcome.err);
  BOOST_TEST(difference(folder / "less.fits", folder / "all.fits") <= 1e-5);
}

BOOST_AUTO_TEST_CASE(enhance_names_a_tile_that_fits) {
  const ScratchFolder folder;
  synthesise(folder.path(), 80);
  const auto enhance = [&](const std::string& tile, std::int64_t memory) {
    return run_on_card(folder.path(),
                       enhance_words("out.fits", {"hpu", "--sampler", "mean", "--batch", "1", "--tile", tile}), memory);
  };
  const std::int64_t limit = between(enhance("128", 0), enhance("256", 0));
  const CardRun full = enhance("256", limit);
  BOOST_TEST(full.outcome.code == 70, full.outcome.err);
  BOOST_TEST(contains(full.outcome.err, "A window of 256 x 256 pixels does not fit"), full.outcome.err);
  BOOST_TEST(contains(full.outcome.err, "windows of 128 fit: --tile 128"), full.outcome.err);
  BOOST_TEST(enhance("128", limit).outcome.code == 0);
  // Where no window fits, that is said.
  const CardRun none = enhance("256", 1000000);
  BOOST_TEST(none.outcome.code == 70);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(hpu_sr3)

BOOST_AUTO_TEST_CASE(sr3_trains_and_enhances_with_the_vendors_attention_and_nothing_on_the_host) {
  const ScratchFolder folder;
  const CardRun trained = run_on_card(folder.path(), sr3_words("6", "2"));
  check_steps(trained, 6);
  BOOST_TEST(trained.operations("hpu::sdpa_recomp_fwd") > 0);
  BOOST_TEST(trained.operations("hpu::sdpa_recomp_bwd") == trained.operations("hpu::sdpa_recomp_fwd"));

  synthesise(folder.path(), 32);
  const auto enhance = [&](const std::string& device, const std::string& steps) {
    const CardRun r = run_on_card(
        folder.path(), enhance_words(device + ".fits", {device, "--model", "run/model.safetensors", "--members", "2",
                                                        "--sampler", "dpmpp", "--steps", steps}));
    BOOST_TEST_REQUIRE(r.outcome.code == 0, r.outcome.err);
    return r;
  };
  enhance("cpu", "6");
  const CardRun few = enhance("hpu", "4"), more = enhance("hpu", "6");
  BOOST_TEST(more.report.at("fallbacks").empty(), more.report.at("fallbacks").dump());
  BOOST_TEST(more.count("compiles") == few.count("compiles"));
  BOOST_TEST(more.count("host_reads") == few.count("host_reads"));
  BOOST_TEST(more.operations("hpu::sdpa_recomp_fwd") > few.operations("hpu::sdpa_recomp_fwd"));
  BOOST_TEST(difference(folder / "hpu.fits", folder / "cpu.fits") <= 1e-4);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(slow_hpu_programs)

BOOST_AUTO_TEST_CASE(training_compiles_in_its_first_steps_and_reads_at_checkpoints_alone) {
  const ScratchFolder folder;
  check_steps(run_on_card(folder.path(), {"train", "--config", configuration("dust-x4.toml"), "--out", "run",
                                          "--device", "hpu", "--set", "train.steps=6", "--set", "train.batch=2",
                                          "--set", "network.widths=[8,16]", "--set", "network.embedding=16"}),
              6);
}

BOOST_AUTO_TEST_SUITE_END()
