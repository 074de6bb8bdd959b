// A plan says what training takes: small cases agree with arithmetic by hand, published sizes and orderings come out,
// the least sharding that fits is advised, and what cannot fit is refused with a reason. Against counted runs:
// plan_memory_test.cpp.
#include "scale/plan.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "scale/plan_published.h"
#include "tests/cli/subprocess.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
using nlohmann::json;

constexpr double kGiB = 1024.0 * 1024 * 1024;
using Words = std::vector<std::string>;

scale::PlanRequest request(const std::string& model, const std::string& device, int world) {
  scale::PlanRequest r;
  r.model = model;
  r.device = scale::plan_device(device);
  r.world = world;
  r.settings.batch = 2;
  return r;
}

/// That of the published study.
scale::PlanRequest published(const std::string& model, const std::string& device, int world) {
  scale::PlanRequest r = request(model, device, world);
  r.settings.accumulation = 2;
  r.settings.lora_rank = 64;
  return r;
}

const scale::PlanRow& row(const scale::Plan& plan, const std::string& name) {
  for (const scale::PlanRow& r : plan.rows)
    if (dist::strategy_name(r.options) == name) return r;
  throw std::runtime_error("no row " + name);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(plan)

BOOST_AUTO_TEST_CASE(a_small_model_takes_what_arithmetic_says) {
  // Elements; multiples of 16, so that nothing is padded on 2 ranks. No activations.
  train::TrainingSize size;
  size.units = {{"root", {160}, {}}, {"a", {320}, {640}}, {"b", {320}, {640}}};
  const auto plan = [&](const char* strategy, bool keep_frozen = false) {
    dist::ParallelOptions o;
    o.strategy = strategy;
    o.keep_frozen = keep_frozen;
    return train::plan_memory(size, o, {2, 2});
  };
  // Whole weights 4 (800 + 1280), two moments, average, buckets, a gradient on its way into them.
  BOOST_TEST(plan("ddp").total() == 8320 + 6400 + 3200 + 3200 + 1280);
  // Shards: weights and average 1600, moments 3200, frozen 2560. The worst moment is when the last unit has its
  // gradient (and one that is added to it) and the first is on its way: root and two units of 3840, gradients 640 +
  // 1280, 1280.
  const train::MemoryPlan fsdp = plan("fsdp");
  BOOST_TEST(fsdp.weights == 1600 + 2560);
  BOOST_TEST(fsdp.moments == 3200);
  BOOST_TEST(fsdp.average == 1600);
  BOOST_TEST(fsdp.gathered == 640 + 2 * 3840);
  BOOST_TEST(fsdp.gradients == 640 + 1280);
  BOOST_TEST(fsdp.total() == 8960 + 8320 + 1920 + 1280);
  BOOST_TEST(fsdp.checkpoint_copy == 4 * 1600);
  // Frozen weights whole: 5120 instead of 2560, and two units of 1280 gathered. Then the worst is when the first unit
  // has its gradients while those of the last travel: root and unit, 640 + 1280 and one to add, 1280 + 640 travelling.
  BOOST_TEST(plan("fsdp", true).total() == 1600 + 3200 + 1600 + 5120 + 1920 + 1920 + 1280 + 1920);
  // Weights whole, moments and average in shards; the same moment.
  BOOST_TEST(plan("zero1").total() == 8320 + 3200 + 1600 + 1920 + 1280 + 1920);

  dist::ParallelOptions o;
  o.strategy = "fsdp";
  const train::TrafficPlan t = train::plan_traffic(size, o, {2, 2});
  BOOST_TEST(t.all_gather.bytes == 640 + 2 * 3840 + 3840);
  BOOST_TEST(t.reduce_scatter.bytes == 640 + 2 * 1280);
  BOOST_TEST(t.sent() == (t.all_gather.bytes + t.reduce_scatter.bytes) / 2);
  o.strategy = "ddp";
  BOOST_TEST(train::plan_traffic(size, o, {4, 4}).sent() == 1.5 * 3200);  // 2 (N-1)/N P
  o.strategy = "hybrid";  // within each of two hosts, then shards of 400 elements between them
  const train::TrafficPlan h = train::plan_traffic(size, o, {4, 2});
  BOOST_TEST(h.all_gather.bytes == t.all_gather.bytes);
  BOOST_TEST(h.across.sent == 1600);
}

BOOST_AUTO_TEST_CASE(the_least_sharding_that_fits_is_advised) {
  train::TrainingSize size;
  size.units = {{"root", {16000}, {}}};
  for (int i = 0; i < 8; ++i) size.units.push_back({"b", {16000}, {64000}});
  for (int i = 0; i <= 8; ++i) size.activations.units.push_back({i > 0 ? 1e5 : 0.0, 1e3, 0, 0});
  const train::Ranks ranks{8, 4};
  const std::vector<dist::ParallelOptions> all = train::candidates(size, {}, ranks);
  std::vector<std::string> names;
  for (const dist::ParallelOptions& o : all) names.push_back(dist::strategy_name(o));
  const std::vector<std::string> expected{
      "ddp",    "zero1", "zero2", "hybrid, frozen kept", "fsdp, frozen kept", "zero3, frozen kept",
      "hybrid", "fsdp",  "zero3"};
  BOOST_TEST(names == expected, boost::test_tools::per_element());
  for (const dist::ParallelOptions& o : all) {
    const double needs = train::plan_memory(size, o, ranks).total();
    const train::Advice a = train::advise(size, {}, ranks, needs);
    BOOST_TEST(a.fits);
    BOOST_TEST(a.plan.total() <= needs);
    // Nothing that comes before fits.
    for (const dist::ParallelOptions& before : all) {
      if (before.strategy == a.options.strategy && before.keep_frozen == a.options.keep_frozen) break;
      BOOST_TEST(train::plan_memory(size, before, ranks).total() > needs);
    }
  }
  double least = 1e18;
  for (const dist::ParallelOptions& o : all) least = std::min(least, train::plan_memory(size, o, ranks).total());
  const train::Advice again = train::advise(size, {}, ranks, least - 1);
  BOOST_TEST(again.fits);
  BOOST_TEST(again.options.recompute);
  const train::Advice none = train::advise(size, {}, ranks, 1000);
  BOOST_TEST(!none.fits);
  BOOST_TEST(none.plan.total() > 1000);
  BOOST_TEST(train::advise(size, {}, {1, 1}, 1e12).options.strategy == "none");
}

BOOST_AUTO_TEST_CASE(parameters_are_those_that_makers_publish) {
  for (const auto& [name, n] : std::map<std::string, std::int64_t>{{"llama-3.1-8b", 8'030'261'248},
                                                                   {"llama-3.3-70b", 70'553'706'496},
                                                                   {"gemma2-27b", 27'227'128'320},
                                                                   {"tinyllama-1.1b", 1'100'048'384},
                                                                   {"smollm2-135m", 134'515'008}}) {
    const scale::Workload w = scale::workload(name, {});
    BOOST_TEST(w.parameters == n, name);
    BOOST_TEST(w.size.trained_elements() == n, name);
    scale::Settings lora;
    lora.lora_rank = 64;
    BOOST_TEST(scale::workload(name, lora).size.frozen_elements() == n, name);
  }
  scale::Settings s;
  s.dtype = at::kFloat;
  BOOST_TEST(scale::workload("sr3-64-256", s).parameters == 542'723'457);
  BOOST_TEST(scale::workload("edm-base", s).parameters ==
             scale::workload(std::string(std::getenv("CIRRUS_SOURCE")) + "/configs/train/dust-x4.toml", s).parameters);
  // Adapters: rank (rows + columns) for q and v of each layer.
  scale::Settings lora;
  lora.lora_rank = 64;
  BOOST_TEST(scale::workload("llama-3.1-8b", lora).size.trained_elements() == 32 * 64 * (4096 + 4096 + 1024 + 4096));
}

BOOST_AUTO_TEST_CASE(a_shape_is_read_from_a_configuration) {
  const ScratchFolder folder;
  put(folder / "config.json", R"({"model_type": "gemma2", "hidden_size": 4608, "intermediate_size": 36864,
      "num_hidden_layers": 46, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
      "vocab_size": 256000})");
  BOOST_TEST(scale::language_model(folder.path().string()).parameters() == 27'227'128'320);
  const auto code = [&](const std::string& text) {
    put(folder / "bad.json", text);
    try {
      scale::language_model((folder / "bad.json").string());
    } catch (const Error& e) {
      return static_cast<int>(e.code());
    }
    return 0;
  };
  BOOST_TEST(code("[1]") == 65);
  BOOST_TEST(code("{\"hidden_size\": 64}") == 65);
  BOOST_TEST(code(R"({"model_type": "bert", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 1, "vocab_size": 10})") == 65);
  BOOST_TEST(code(R"({"hidden_size": -4, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1,
      "vocab_size": 10})") == 65);
  BOOST_CHECK_THROW(scale::language_model((folder / "missing.json").string()), Error);
}

BOOST_AUTO_TEST_CASE(more_never_takes_less) {
  for (const std::int64_t rank : {0, 16}) {
    double ddp = 0;
    std::map<std::string, double> before;
    for (const int world : {2, 4, 8, 16, 32}) {
      scale::PlanRequest r = request("tinyllama-1.1b", "gaudi2", world);
      r.settings.lora_rank = rank;
      const scale::Plan plan = scale::make_plan(r);
      const auto total = [&](const char* name) { return row(plan, name).memory.total(); };
      if (ddp > 0) BOOST_TEST(total("ddp") == ddp);
      ddp = total("ddp");
      for (const char* name : {"zero1", "zero2", "fsdp", "zero3", "fsdp, recompute"}) {
        // Shards are padded to 8 elements.
        if (before.contains(name)) BOOST_TEST(total(name) <= before[name] + 1e6, name << " on " << world);
        before[name] = total(name);
      }
      BOOST_TEST(total("zero1") <= ddp);
      BOOST_TEST(total("fsdp") <= total("zero1"));
      BOOST_TEST(total("fsdp, recompute") < total("fsdp"));
      if (rank > 0) {
        BOOST_TEST(total("fsdp") < total("fsdp, frozen kept"));
        BOOST_TEST(row(plan, "fsdp, frozen kept").traffic.sent() < 0.1 * row(plan, "fsdp").traffic.sent());
        BOOST_TEST(row(plan, "ddp").traffic.sent() < 0.01 * row(plan, "fsdp").traffic.sent());
      }
      r.settings.batch = 4;
      const scale::Plan larger = scale::make_plan(r);
      for (std::size_t i = 0; i < plan.rows.size(); ++i)
        BOOST_TEST(larger.rows[i].memory.total() > plan.rows[i].memory.total());
      r.settings.flash = false;
      BOOST_TEST(row(scale::make_plan(r), "ddp").memory.total() > row(larger, "ddp").memory.total());
    }
  }
}

BOOST_AUTO_TEST_CASE(mixed_precision_costs_sixteen_bytes_a_parameter) {
  // Rajbhandari et al. 2020: 2 + 2 + 12 whole, 4 + 12/n for zero1; what is gathered comes on top for fsdp.
  scale::PlanRequest r = request("llama-3.1-8b", "h100-80", 8);
  const scale::Plan plan = scale::make_plan(r);
  const double p = 8'030'261'248;
  const auto state = [&](const char* name) {
    const train::MemoryPlan& m = row(plan, name).memory;
    return (m.weights + m.copies + m.moments + m.gradients) / p;
  };
  BOOST_TEST(std::abs(state("ddp") - 16) < 1e-6);
  const train::MemoryPlan& fsdp = row(plan, "fsdp").memory;
  BOOST_TEST(std::abs((fsdp.weights + fsdp.moments) / p - 12.0 / 8) < 1e-3);
  BOOST_TEST(fsdp.gathered >= 2 * 1.05e9);  // embedding and head
  BOOST_TEST(!plan.rows[0].fits);
}

BOOST_AUTO_TEST_CASE(published_orderings_come_out) {
  for (const int n : {2, 4, 6, 8}) {
    const scale::Plan plan = scale::make_plan(published("gemma2-27b", "gaudi2", n));
    BOOST_TEST_REQUIRE(plan.advised.has_value());
    BOOST_TEST(plan.rows[*plan.advised].options.strategy == "ddp");
    const auto seconds = [&](const char* name) { return row(plan, name).seconds->step(); };
    BOOST_TEST(seconds("ddp") < seconds("zero3"));
    BOOST_TEST(seconds("ddp") < seconds("fsdp"));
    BOOST_TEST(seconds("fsdp, frozen kept") < seconds("fsdp"));
    // With the fitted slow-down, the published ratios to within its residuals.
    for (const scale::PublishedRun& run : scale::published_runs()) {
      if (run.model != "gemma2-27b" || run.strategy == "ddp") continue;
      const scale::PublishedRun& whole = scale::published_runs()[3];
      BOOST_TEST_REQUIRE((whole.model == "gemma2-27b" && whole.strategy == "ddp"));
      const auto at = [n](const scale::PublishedRun& r) {
        for (const auto& [cards, m] : r.minutes)
          if (cards == n) return m;
        return 0.0;
      };
      const double ratio = at(run) / at(whole), found = *row(plan, run.strategy).fitted / seconds("ddp");
      BOOST_TEST(std::abs(found / ratio - 1) < 0.12,
                 run.strategy << " on " << n << ": " << found << ", published " << ratio);
    }
  }
  // 70 billion parameters in 16 bits are 141 GB: not on one card of 96, on four or eight only in shards.
  BOOST_TEST(!scale::make_plan(published("llama-3.3-70b", "gaudi2", 1)).refusal.empty());
  for (const int n : {4, 6, 8}) {
    const scale::Plan plan = scale::make_plan(published("llama-3.3-70b", "gaudi2", n));
    BOOST_TEST_REQUIRE(plan.advised.has_value());
    for (const char* whole : {"ddp", "zero1", "zero2", "fsdp, frozen kept", "ddp, recompute"})
      BOOST_TEST(!row(plan, whole).fits, whole);
    BOOST_TEST(plan.rows[*plan.advised].options.strategy == "fsdp");
    BOOST_TEST(row(plan, "zero3").fits);
  }
  // Those that ran, fit; 27 billion do not on a card of 32.
  for (const char* device : {"gaudi1", "gaudi2", "gaudi3"})
    BOOST_TEST(row(scale::make_plan(published("llama-3.1-8b", device, 8)), "ddp").fits, device);
  BOOST_TEST(!row(scale::make_plan(published("gemma2-27b", "gaudi1", 8)), "ddp").fits);
}

BOOST_AUTO_TEST_CASE(the_fit_is_the_best_there_is) {
  for (const char* strategy : {"zero3", "fsdp"}) {
    const scale::SlowdownFit fit = scale::fit_slowdown(strategy);
    BOOST_TEST(fit.residuals.size() == 4u);
    double weighted = 0, by_links = 0;  // derivatives of the sum of squares vanish
    for (const auto& [n, r] : fit.residuals) {
      BOOST_TEST(std::abs(r) < 0.12, strategy << " on " << n);
      const double scale_of = (1 + r) / (1 + fit.a + fit.b / n);  // whole over sharded time
      weighted += r * scale_of;
      by_links += r * scale_of / n;
    }
    BOOST_TEST(std::abs(weighted) < 1e-9);
    BOOST_TEST(std::abs(by_links) < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(sr3_takes_the_published_time) {
  scale::PlanRequest r = request("sr3-64-256", "gaudi2", 1);
  r.settings.batch = 4;
  r.settings.dtype = at::kFloat;
  const scale::Plan plan = scale::make_plan(r);
  BOOST_TEST(dist::strategy_name(plan.rows[0].options) == "none");
  BOOST_TEST(std::abs(plan.rows[0].seconds->step() - 4 / 1.905) < 0.01);  // images a second on one card
  BOOST_TEST(plan.rate_source.find("fitted") != std::string::npos);
  r.given_rate = true;  // of a peak that nobody publishes
  BOOST_TEST(!scale::make_plan(r).rows[0].seconds.has_value());
}

BOOST_AUTO_TEST_CASE(what_cannot_fit_is_refused_with_what_would_help) {
  const Words words{"plan", "--model", "llama-3.3-70b", "--device", "gaudi2", "--world", "1", "--lora", "64"};
  const test::Outcome refused = run("cirrus-scale", words);
  BOOST_TEST(refused.code == 1, refused.err);
  BOOST_TEST(contains(refused.err, "nothing fits"), refused.err);
  BOOST_TEST(contains(refused.err, "--world 2"), refused.err);
  BOOST_TEST(contains(refused.out, "70553706496 parameters"), refused.out);
  Words forced = words;
  forced.push_back("--force");
  BOOST_TEST(run("cirrus-scale", forced).code == 0);
  forced.push_back("--json");
  const json object = json::parse(run("cirrus-scale", forced).out);
  BOOST_TEST(object["format"] == "cirrus-plan/1");
  BOOST_TEST(object["fits"] == false);
  BOOST_TEST(object["advice"].is_null());
  BOOST_TEST(object["rows"][0]["memory"]["total"].get<double>() > 96 * kGiB);

  const auto with = [](Words more) {
    more.insert(more.begin(), "plan");
    return run("cirrus-scale", more);
  };
  // One asked for that does not fit, though others do.
  const test::Outcome asked =
      with({"--model", "llama-3.3-70b", "--device", "gaudi2", "--world", "8", "--lora", "64", "--parallel", "ddp"});
  BOOST_TEST(asked.code == 1);
  BOOST_TEST(contains(asked.err, "use fsdp"), asked.err);
  BOOST_TEST(with({"--model", "llama-3.3-70b", "--device", "gaudi2", "--world", "8", "--lora", "64"}).code == 0);
  const test::Outcome both =
      with({"--model", "llama-3.1-8b", "--device", "a100-40", "--world", "2", "--batch", "8", "--length", "4096"});
  BOOST_TEST(both.code == 1);
  BOOST_TEST(contains(both.err, "with --batch 1 would fit"), both.err);
  BOOST_TEST(with({"--model", "edm-base", "--device", "other", "--memory", "4"}).code == 0);
  const test::Outcome unknown = with({"--model", "lama-3.1-8b", "--device", "gaudi2"});
  BOOST_TEST(unknown.code == 64);
  BOOST_TEST(contains(unknown.err, "llama-3.1-8b"), unknown.err);
  BOOST_TEST(with({"--model", "llama-3.1-8b", "--device", "gaudi"}).code == 64);
  BOOST_TEST(with({"--model", "llama-3.1-8b", "--device", "other"}).code == 64);
  BOOST_TEST(with({"--model", "llama-3.1-8b", "--device", "gaudi2", "--world", "12"}).code == 64);
  BOOST_TEST(with({"--model", "llama-3.1-8b", "--device", "gaudi2", "--lora", "8", "--lora-targets", "q,x"}).code ==
             64);
}

BOOST_AUTO_TEST_SUITE_END()
