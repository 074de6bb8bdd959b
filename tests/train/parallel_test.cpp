// Training in several ranks is training in one: for every strategy the same weights after 20 steps, what travels and
// what is held at a time as the strategies promise, and runs that go on in another world.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "dist/checkpoint.h"
#include "tests/cli/subprocess.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;

using Words = std::vector<std::string>;

const Words kStrategies{"ddp", "zero1", "zero2", "zero3", "fsdp", "hybrid"};

test::Outcome train(int ranks, const fs::path& out, const std::string& task, const Words& settings) {
  fs::create_directories(out);
  Words words{out.string(), task};
  words.insert(words.end(), settings.begin(), settings.end());
  const RunSettings quiet{.environment = {{"UCX_HANDLE_ERRORS", "none"}, {"CIRRUS_TIMEOUT", "60"}}};
  if (ranks == 1) return run("parallel_probe", words, quiet);
  words.insert(words.begin(), {"-n", std::to_string(ranks), program_path("parallel_probe").string()});
  return run(mpiexec(), words, quiet);
}

std::map<std::string, at::Tensor> weights(const fs::path& out) {
  const auto reader = dist::find_checkpoint(out / "checkpoints", dist::World{});
  BOOST_TEST_REQUIRE(reader.has_value(), "no checkpoint in " << out);
  std::map<std::string, at::Tensor> all;
  for (const std::string& name : reader->names())
    if (name != "record") all[name] = reader->read(name).to(at::kDouble);
  for (const auto& [name, t] : dist::load_tensors(out / "model.safetensors").tensors)
    all["file." + name] = t.to(at::kDouble);
  return all;
}

/// Largest difference over the largest value of each tensor.
double difference(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  BOOST_TEST_REQUIRE(a.size() == b.size());
  double largest = 0;
  for (const auto& [name, t] : a) {
    const at::Tensor& o = b.at(name);
    const double scale = std::max(o.abs().max().item<double>(), 1e-30);
    largest = std::max(largest, (t - o).abs().max().item<double>() / scale);
  }
  return largest;
}

/// Trains each case by each strategy on `ranks` ranks, and on one: weights may differ by `allowed` of the largest of
/// their tensor.
void compare(int ranks, const Words& strategies, const Words& cases, double allowed) {
  std::string list;
  for (const std::string& strategy : strategies) list += (list.empty() ? "" : ",") + strategy;
  Words words{"-n", std::to_string(ranks), program_path("compare_probe").string(), list};
  for (const std::string& one : cases) {
    std::istringstream in(one);
    for (std::string word; in >> word;) words.push_back(word);
    words.push_back("/");
  }
  const test::Outcome o =
      run(mpiexec(), words, {.environment = {{"UCX_HANDLE_ERRORS", "none"}, {"CIRRUS_TIMEOUT", "60"}}});
  BOOST_TEST_REQUIRE(o.code == 0, o.err);
  std::size_t compared = 0;
  std::istringstream out(o.out);
  for (std::string line; std::getline(out, line); ++compared) {
    const nlohmann::json j = nlohmann::json::parse(line);
    const double found = j.at("largest");
    BOOST_TEST(found <= allowed, j.at("case")
                                     << " on " << ranks << " ranks differs by " << found << " in " << j.at("where"));
  }
  BOOST_TEST(compared == strategies.size() * cases.size());
}

nlohmann::json measure(int ranks, const Words& settings) {
  const ScratchFolder folder;
  Words words = settings;
  words.push_back("measure=1");
  const test::Outcome outcome = train(ranks, folder / "out", "blocks", words);
  BOOST_TEST_REQUIRE(outcome.code == 0, outcome.err);
  return nlohmann::json::parse(outcome.out);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(parallel)

BOOST_AUTO_TEST_CASE(every_strategy_trains_what_one_rank_trains) {
  // Sums over ranks have another order: 20 steps of roundings of 1e-16. With 3 ranks and 4 samples, shares are unequal,
  // and some ranks have even samples alone.
  compare(3, kStrategies,
          {"blocks blocks=3 batch=16 accumulation=4 unequal=1", "blocks blocks=3 frozen=1 unused=1", "edm batch=4"},
          1e-9);
  compare(2, kStrategies, {"sr3 batch=3 steps=8"}, 1e-9);
}

BOOST_AUTO_TEST_CASE(how_a_strategy_works_changes_nothing) {
  compare(2, {"ddp", "zero2", "zero3", "fsdp"},
          {"blocks blocks=3 frozen=1 keep_frozen=1", "blocks blocks=3 recompute=1 unused=1",
           "blocks blocks=3 prefetch=0 each_part=0 accumulation=2", "sr3 recompute=1 steps=5"},
          1e-9);
}

BOOST_AUTO_TEST_CASE(single_precision_agrees_to_its_rounding) {
  // Adam's early steps are signs of gradients: roundings of 6e-8 grow, at a high rate without bound.
  compare(2, kStrategies, {"blocks blocks=4 type=fp32 rate=0.001", "edm type=fp32"}, 1e-4);
}

BOOST_AUTO_TEST_CASE(unused_parameters_are_named) {
  const ScratchFolder folder;
  for (const char* strategy : {"ddp", "fsdp"}) {
    const test::Outcome o =
        train(2, folder / strategy, "blocks", {"blocks=2", "unused=1", "steps=2", "strategy=" + std::string(strategy)});
    BOOST_TEST(contains(o.err, "without a gradient"), o.err);
    BOOST_TEST(contains(o.err, "block.0.never"), o.err);
    BOOST_TEST(!contains(o.err, "block.0.qkv"), o.err);
  }
}

BOOST_AUTO_TEST_CASE(gradients_may_travel_in_half_the_bytes) {
  compare(2, {"ddp", "fsdp"}, {"blocks blocks=3 type=fp32 reduce=bf16 steps=3"}, 0.02);
  const nlohmann::json whole = measure(2, {"blocks=4", "type=fp32", "steps=2", "strategy=ddp"});
  const nlohmann::json half = measure(2, {"blocks=4", "type=fp32", "steps=2", "strategy=ddp", "reduce=bf16"});
  BOOST_TEST(2 * half["all_reduce"]["bytes"].get<std::int64_t>() == whole["all_reduce"]["bytes"].get<std::int64_t>());
}

BOOST_AUTO_TEST_CASE(what_travels_is_what_the_strategies_promise) {
  // Elements of one block of width 16, each tensor padded to 8, and of the root; in float64.
  const std::int64_t block = 16 + 3 * 256 + 256 + 2 * 4 * 256, root = 2 * 24 * 16, n = 4;
  const auto padded = [](std::int64_t elements, std::int64_t ranks) {
    return (elements + 8 * ranks - 1) / (8 * ranks) * 8 * ranks * 8;  // bytes
  };
  for (const std::int64_t ranks : {2, 4}) {
    const std::int64_t p = n * padded(block, ranks) + padded(root, ranks);
    const auto get = [&](const std::string& strategy, Words more = {}) {
      more.insert(more.end(), {"blocks=4", "steps=2", "strategy=" + strategy});
      return measure(static_cast<int>(ranks), more);
    };
    const auto sent = [&](std::int64_t bytes) { return bytes * (ranks - 1) / ranks; };
    const nlohmann::json ddp = get("ddp");
    BOOST_TEST(ddp["all_reduce"]["bytes"] == 8 * (n * block + root));  // one all-reduce, in buckets
    BOOST_TEST(std::abs(ddp["all_reduce"]["sent"].get<std::int64_t>() - 2 * sent(8 * (n * block + root))) <= 16);
    BOOST_TEST(ddp["all_gather"]["calls"] == 0);
    for (const char* strategy : {"zero1", "zero2"}) {
      const nlohmann::json z = get(strategy);
      BOOST_TEST(z["all_gather"]["bytes"] == p, strategy);
      BOOST_TEST(z["reduce_scatter"]["bytes"] == p, strategy);
    }
    // Twice: for the forward pass and for the backward pass, but for the last block, which begins the latter, and the
    // root, which stays.
    const std::int64_t last = padded(block, ranks);
    for (const Words& more : {Words{}, Words{"recompute=1"}, Words{"prefetch=0"}}) {
      const nlohmann::json f = get("fsdp", more);
      BOOST_TEST(f["all_gather"]["bytes"] == 2 * p - last - padded(root, ranks));
      BOOST_TEST(f["all_gather"]["sent"] == sent(2 * p - last - padded(root, ranks)));
      BOOST_TEST(f["reduce_scatter"]["bytes"] == p);
      BOOST_TEST(f["reduce_scatter"]["sent"] == sent(p));
    }
    // LoRA-like: frozen weights are gathered and never reduced; kept, they do not travel at all.
    const std::int64_t adapters = n * padded(2 * 16 + 48 * 2, ranks) + padded(root, ranks),
                       frozen = padded(block, ranks);
    const nlohmann::json lora = get("fsdp", {"frozen=1"}), kept = get("fsdp", {"frozen=1", "keep_frozen=1"});
    BOOST_TEST(lora["reduce_scatter"]["bytes"] == adapters);
    BOOST_TEST(kept["reduce_scatter"]["bytes"] == adapters);
    BOOST_TEST(lora["all_gather"]["bytes"].get<std::int64_t>() - kept["all_gather"]["bytes"].get<std::int64_t>() ==
               (2 * n - 1) * frozen);
  }
}

BOOST_AUTO_TEST_CASE(sharded_training_holds_a_fraction_of_the_memory) {
  // 16 blocks: weights, gradients and Adam's two moments are 4 P on each rank of ddp.
  const std::int64_t ranks = 4, width = 16;
  const std::int64_t block = 8 * (width + 12 * width * width), root = 8 * 2 * 24 * width, p = 16 * block + root;
  for (const bool prefetch : {false, true}) {
    const nlohmann::json f =
        measure(ranks, {"steps=2", "strategy=fsdp", "average=0", prefetch ? "prefetch=1" : "prefetch=0"});
    // Live: the root, a block (two with prefetch), a block's gradient, another that travels and what comes of it.
    const std::int64_t live = f["peak_live"].get<std::int64_t>(), shards = 4 * p / ranks;
    BOOST_TEST(live <= 2 * root + (prefetch ? 4 : 3) * block + block / ranks + 16 * 64 * ranks);
    BOOST_TEST(live >= root + block);
    BOOST_TEST(static_cast<double>(shards + live) <= (prefetch ? 0.35 + 1.0 / 64 : 0.35) * 4 * static_cast<double>(p));
  }
}

BOOST_AUTO_TEST_CASE(a_run_goes_on_in_another_world_with_another_strategy) {
  const ScratchFolder folder;
  const Words common{"blocks=3", "unequal=1", "batch=6"};
  const auto with = [&](Words more) {
    more.insert(more.end(), common.begin(), common.end());
    return more;
  };
  BOOST_TEST_REQUIRE(train(1, folder / "straight", "blocks", with({"steps=40"})).code == 0);
  BOOST_TEST_REQUIRE(train(4, folder / "first", "blocks", with({"steps=20", "strategy=fsdp"})).code == 0);
  const auto expected = weights(folder / "straight");
  for (const auto& [ranks, strategy] :
       std::vector<std::pair<int, std::string>>{{3, "ddp"}, {1, "none"}, {2, "zero3"}}) {
    fs::copy(folder / "first", folder / strategy, fs::copy_options::recursive);
    const test::Outcome o =
        train(ranks, folder / strategy, "blocks", with({"steps=40", "resume=1", "strategy=" + strategy}));
    BOOST_TEST_REQUIRE(o.code == 0, o.err);
    BOOST_TEST(contains(o.err, "Resuming from step 20, written by 4 rank(s) with fsdp"), o.err);
    BOOST_TEST(difference(weights(folder / strategy), expected) <= 1e-9, strategy);
    // The losses of every step, as written.
    const std::string lines = contents(folder / strategy / "train.jsonl"),
                      right = contents(folder / "straight/train.jsonl");
    std::istringstream found(lines), wanted(right);
    for (std::string a, b; std::getline(wanted, b);) {
      BOOST_TEST_REQUIRE(static_cast<bool>(std::getline(found, a)));
      const auto x = nlohmann::json::parse(a), y = nlohmann::json::parse(b);
      BOOST_TEST(x["step"] == y["step"]);
      BOOST_TEST(std::abs(x["loss"].get<double>() / y["loss"].get<double>() - 1) < 1e-6);  // written with 7 digits
    }
  }
}

BOOST_AUTO_TEST_CASE(one_rank_that_is_told_to_stop_stops_all_and_the_run_goes_on_bit_for_bit) {
  const ScratchFolder folder;
  for (const char* strategy : {"ddp", "fsdp"}) {
    const Words common{"blocks=3", "steps=12", "strategy=" + std::string(strategy)};
    const auto with = [&](Words more) {
      more.insert(more.end(), common.begin(), common.end());
      return more;
    };
    const fs::path straight = folder / (std::string(strategy) + "-straight"), parts = folder / strategy;
    BOOST_TEST_REQUIRE(train(4, straight, "blocks", with({})).code == 0);
    const test::Outcome stopped = train(4, parts, "blocks", with({"term=2@5"}));
    BOOST_TEST(stopped.code == 75, stopped.err);
    BOOST_TEST(contains(stopped.err, "Stop requested at step 5 of 12"), stopped.err);
    BOOST_TEST(train(4, parts, "blocks", with({"resume=1"})).code == 0);
    BOOST_TEST(difference(weights(parts), weights(straight)) == 0, strategy);
  }
}

BOOST_AUTO_TEST_CASE(a_stop_file_stops_all_once) {
  const ScratchFolder folder;
  fs::create_directories(folder / "run");
  put(folder / "run/stop", "");
  const Words settings{"blocks=2", "steps=4", "strategy=ddp"};
  BOOST_TEST(train(2, folder / "run", "blocks", settings).code == 75);
  BOOST_TEST(!fs::exists(folder / "run/stop"));
  BOOST_TEST(train(2, folder / "run", "blocks", {"blocks=2", "steps=4", "strategy=ddp", "resume=1"}).code == 0);
}

BOOST_AUTO_TEST_CASE(a_rank_that_dies_takes_the_run_down_and_leaves_the_last_checkpoint_whole) {
  const ScratchFolder folder;
  const test::Outcome o =
      train(3, folder / "run", "blocks", {"blocks=2", "steps=50", "every=4", "kill=1@11", "strategy=fsdp"});
  BOOST_TEST(o.code != 0);
  const auto found = dist::find_checkpoint(folder / "run/checkpoints", dist::World{});
  BOOST_TEST_REQUIRE(found.has_value());
  BOOST_TEST((found->checkpoint().step == 4 || found->checkpoint().step == 8));
  BOOST_TEST(train(2, folder / "run", "blocks", {"blocks=2", "steps=14", "resume=1", "strategy=ddp"}).code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(slow_parallel_matrix)

/// All networks and strategies on all numbers of ranks, with and without accumulation, frozen and unused parameters.
BOOST_AUTO_TEST_CASE(weights_after_20_steps_are_those_of_one_rank) {
  for (const int ranks : {2, 3, 4}) {
    // Shares and parts of unequal size.
    const std::string whole = " batch=5", parts = " accumulation=4 batch=" + std::to_string(4 * ranks + 4);
    Words exact, single;
    for (const std::string task : {"blocks unequal=1", "edm", "sr3"}) {
      exact.insert(exact.end(), {task + whole, task + whole + " frozen=1 unused=1"});
      exact.push_back(task + parts + (ranks == 3 ? " frozen=1 unused=1" : ""));
      single.push_back(task + (ranks == 3 ? parts : whole) + " type=fp32 rate=0.001");
    }
    compare(ranks, kStrategies, exact, 1e-9);
    compare(ranks, kStrategies, single, 1e-4);
  }
}

BOOST_AUTO_TEST_SUITE_END()
