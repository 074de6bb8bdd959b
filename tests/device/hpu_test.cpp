// Intel Gaudi without the card: the module against a stand-in for the vendor's plug-in that counts flushes, host reads,
// compiles and operators that fall back to the host, and against packages with something amiss.
#include <sstream>

#include "tests/device/fake_card.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;

/// "scenario.key" -> value, of hpu_probe; it has to succeed.
std::map<std::string, std::string> probe(const std::vector<std::string>& scenarios, Variables environment = card()) {
  const Outcome o = run("hpu_probe", scenarios, {.environment = std::move(environment)});
  BOOST_TEST_REQUIRE(o.code == 0, o.err);
  std::map<std::string, std::string> out;
  std::istringstream in(o.out);
  for (std::string line; std::getline(in, line);) out[line.substr(0, line.find(' '))] = line.substr(line.find(' ') + 1);
  return out;
}

/// hpu_probe fails with that code and sentence.
void check_failure(const std::vector<std::string>& scenarios, const Variables& environment, int code,
                   const std::vector<std::string>& parts) {
  const Outcome o = run("hpu_probe", scenarios, {.environment = environment});
  BOOST_TEST(o.code == code, o.err);
  for (const std::string& part : parts) BOOST_TEST(contains(o.err, part), "'" << part << "' is not in: " << o.err);
  BOOST_TEST(o.out == "");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hpu)

BOOST_AUTO_TEST_CASE(every_generation_keeps_the_contract_and_computes_right) {
  for (const char* generation : {"1", "2", "3"}) {
    const Outcome o =
        run("test_device", {"--run_test=operations"},
            {.environment = card({{"CIRRUS_TEST_DEVICE", "hpu"}, {"CIRRUS_FAKE_HPU_GENERATION", generation}})});
    BOOST_TEST(o.code == 0, "generation " << generation << ": " << o.out << o.err);
  }
}

BOOST_AUTO_TEST_CASE(networks_are_right_on_it) {
  const ScratchFolder folder;
  const std::string file = (folder / "report.json").string();
  const Outcome o = run("test_device", {"--run_test=network_contract"},
                        {.environment = card({{"CIRRUS_TEST_DEVICE", "hpu"}, {"CIRRUS_FAKE_HPU_REPORT", file}})});
  BOOST_TEST(o.code == 0, o.out << o.err);
  const auto report = nlohmann::json::parse(contents(file));
  BOOST_TEST(report.at("fallbacks").empty(), report.at("fallbacks").dump());
  BOOST_TEST(report.at("operations").contains("hpu::sdpa_recomp_bwd"));
}

BOOST_AUTO_TEST_CASE(kernels_without_one_there_are_right) {
  const Outcome o =
      run("test_kernels", {"--run_test=attention,dropout"}, {.environment = card({{"CIRRUS_TEST_DEVICE", "hpu"}})});
  BOOST_TEST(o.code == 0, o.out << o.err);
}

BOOST_AUTO_TEST_CASE(a_generation_is_known_by_its_name_memory_and_types) {
  struct Row {
    const char *generation, *name, *bytes;
    bool eight_bit;
  };
  for (const Row& row :
       {Row{"1", "Intel Gaudi 1", "34359738368", false}, Row{"2", "Intel Gaudi 2", "103079215104", true},
        Row{"3", "Intel Gaudi 3", "137438953472", true}}) {
    auto says = probe({"name", "dtypes", "memory", "versions"}, card({{"CIRRUS_FAKE_HPU_GENERATION", row.generation}}));
    BOOST_TEST(says["name.is"] == row.name);
    BOOST_TEST(says["memory.total"] == row.bytes);
    BOOST_TEST((says.contains("dtypes.bf16") && says.contains("dtypes.fp32")));
    BOOST_TEST(says.contains("dtypes.fp8") == row.eight_bit);
    BOOST_TEST(says["dtypes.deferred"] == "1");
    BOOST_TEST(says["versions.mode"] == "lazy");
  }
  check_failure({"float8"}, card({{"CIRRUS_FAKE_HPU_GENERATION", "1"}}), 1, {"not supported on Gaudi"});
  // Without the management library it is a Gaudi of unknown generation.
  BOOST_TEST(probe({"name"}, card({{"LD_LIBRARY_PATH", ""}}))["name.is"] == "Intel Gaudi");
}

BOOST_AUTO_TEST_CASE(the_plug_in_finds_the_ranks_of_any_launcher_and_its_card) {
  auto says =
      probe({"environment"},
            card({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"HABANA_VISIBLE_MODULES", "4,6"}}));
  BOOST_TEST(says["environment.PT_HPU_LAZY_MODE"] == "1");
  BOOST_TEST(says["environment.RANK"] == "5");
  BOOST_TEST(says["environment.ID"] == "5");
  BOOST_TEST(says["environment.WORLD_SIZE"] == "8");
  BOOST_TEST(says["environment.LOCAL_RANK"] == "1");
  BOOST_TEST(says["environment.HLS_MODULE_ID"] == "6");
  // What the user set stays.
  says = probe({"environment", "dtypes"}, card({{"SLURM_PROCID", "3"},
                                                {"RANK", "0"},
                                                {"HLS_MODULE_ID", "7"},
                                                {"HABANA_VISIBLE_MODULES", "1"},
                                                {"PT_HPU_LAZY_MODE", "0"}}));
  BOOST_TEST(says["environment.RANK"] == "0");
  BOOST_TEST(says["environment.HLS_MODULE_ID"] == "7");
  BOOST_TEST(says["dtypes.deferred"] == "0");
  check_failure({"name"}, card({{"SLURM_LOCALID", "2"}, {"HABANA_VISIBLE_MODULES", "4,6"}}), 69,
                {"names 2 card(s)", "local rank 2"});
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(hpu_unavailable)

BOOST_AUTO_TEST_CASE(what_is_missing_is_said_with_a_remedy) {
  const ScratchFolder folder;
  const auto at = [&](const fs::path& plugin) { return card({{"CIRRUS_HPU_PLUGIN", plugin.string()}}); };
  check_failure({"name"}, at("/nowhere"), 69, {"CIRRUS_HPU_PLUGIN=/nowhere", "required_version.txt", "--device cpu"});
  check_failure({"name"}, at(kFakeHpu / "no_library/habana_frameworks"), 69,
                {"has no lib/libhabana_pytorch_plugin.so", "reinstall"});
  check_failure({"name"}, at(kFakeHpu / "undefined_symbol/habana_frameworks"), 69,
                {"was not built for torch", "undefined symbol", "-DTORCH_ROOT="});
  check_failure({"name"}, at(kFakeHpu / "registers_nothing/habana_frameworks"), 69, {"registers no device 'hpu'"});
  fs::create_directories(folder / "torch");
  put(folder / "torch/required_version.txt", "2.6.0\n");
  check_failure({"name"}, at(folder.path()), 69, {"was built for torch 2.6.0", "-DTORCH_ROOT= a torch 2.6"});
  const std::string whole = contents(kFakeHpu / "habana_frameworks/torch/lib/libhabana_pytorch_plugin.so");
  put(folder / "cut.so", whole.substr(0, whole.size() / 2));
  check_failure({"name"}, at(folder / "cut.so"), 69, {"cut.so does not load: it is cut off", "reinstall"});
  put(folder / "plugin.so", "not a library");
  check_failure({"name"}, at(folder / "plugin.so"), 69, {"does not load"});
  if (!fs::exists("/sys/class/accel") && !fs::exists("/sys/class/habanalabs"))
    check_failure({"name"}, {{"CIRRUS_MODULE_PATH", CIRRUS_MODULES}}, 69, {"shows no Gaudi card", "habana.ai/gaudi"});
}

BOOST_AUTO_TEST_CASE(a_card_that_cannot_be_had_is_said_and_never_replaced) {
  check_failure({"name"}, card({{"CIRRUS_FAKE_HPU_FAULT", "in_use"}}), 69, {"in use", "hl-smi"});
  check_failure({"name"}, card({{"CIRRUS_FAKE_HPU_FAULT", "no_card"}}), 69, {"finds no card"});
  const Outcome automatic =
      run(CIRRUS_DEVICE_PROBE, {"auto"}, {.environment = card({{"CIRRUS_FAKE_HPU_FAULT", "in_use"}})});
  BOOST_TEST(automatic.code == 69);
  BOOST_TEST(automatic.out == "");
  const Outcome second = run(CIRRUS_DEVICE_PROBE, {"hpu:1"}, {.environment = card()});
  BOOST_TEST(second.code == 69);
}

BOOST_AUTO_TEST_CASE(python_is_asked_where_its_package_is) {
  const auto python = [&](Variables more) {
    more.insert({{"CIRRUS_HPU_PYTHON", "python3"}, {"CIRRUS_HPU_PLUGIN", ""}});
    return card(std::move(more));
  };
  if (std::system("python3 -c '' 2> /dev/null") != 0) {
    BOOST_TEST_MESSAGE("skipped: there is no python3");
    return;
  }
  check_failure({"name"}, python({{"PYTHONPATH", "/nowhere"}}), 69, {"knows no package habana_frameworks"});
  check_failure({"name"}, python({{"PYTHONPATH", kFakeHpu.string()}}), 69,
                {"lazy mode needs Gaudi's own build", "PT_HPU_LAZY_MODE=0"});
  BOOST_TEST(probe({"name"}, python({{"PYTHONPATH", kFakeHpu.string()}, {"PT_HPU_LAZY_MODE", "0"}}))["name.is"] ==
             "Intel Gaudi 2");
}

BOOST_AUTO_TEST_CASE(a_full_card_is_out_of_memory) {
  check_failure({"full"}, card({{"CIRRUS_FAKE_HPU_MEMORY", "100000000"}}), 70, {"out of memory", "Allocation failed"});
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(hpu_steps)

BOOST_AUTO_TEST_CASE(a_training_step_is_two_graphs_compiled_once_and_read_by_nobody) {
  auto says = probe({"steps"});
  BOOST_TEST(says["steps.flushes"] == "10");  // five steps of two parts
  BOOST_TEST(says["steps.graphs"] == "10");
  BOOST_TEST(says["steps.compiles"] == "2");
  BOOST_TEST(says["steps.late_compiles"] == "0");
  BOOST_TEST(says["steps.host_reads"] == "0");
  BOOST_TEST(says["steps.fallbacks"] == "0");
  BOOST_TEST(says["steps.queued"] == "0");
}

BOOST_AUTO_TEST_CASE(what_would_be_slow_on_the_card_is_seen) {
  auto says = probe({"item", "shapes", "numbers", "host_operator", "double"});
  BOOST_TEST(says["item.host_reads"] == "5");
  BOOST_TEST(std::stoi(says["shapes.host_reads"]) >= 5);
  BOOST_TEST(std::stoi(says["shapes.late_compiles"]) >= 4);  // each count of selected values is another shape
  BOOST_TEST(says["numbers.late_compiles"] == "4");          // each number another graph
  BOOST_TEST(says["host_operator.fallbacks"] == "5");
  BOOST_TEST(says["double.excess"] == "0");  // float64 is float32 there
  // A step that is never ended stays queued.
  auto unflushed = probe({"steps"}, card({{"CIRRUS_FAKE_HPU_FAULT", "no_flush"}}));
  BOOST_TEST(unflushed["steps.flushes"] == "0");
  BOOST_TEST(std::stoi(unflushed["steps.queued"]) > 0);
}

BOOST_AUTO_TEST_CASE(adamw_is_the_vendors_operator_and_compiles_once) {
  auto says = probe({"adamw"});
  BOOST_TEST(says["adamw.fused"] == "1");
  BOOST_TEST(says["adamw.compiles"] == "1");
  BOOST_TEST(says["adamw.fallbacks"] == "0");
  BOOST_TEST(std::stod(says["adamw.difference"]) < 2e-6);  // float32 against double over ten steps of up to 0.1
}

BOOST_AUTO_TEST_CASE(attention_is_the_vendors_operator) {
  auto says = probe({"attention"});
  BOOST_TEST(std::stod(says["attention.difference"]) < 1e-6);
  BOOST_TEST(says["attention.forward"] == "2");
  BOOST_TEST(says["attention.backward"] == "2");
  BOOST_TEST(says["attention.sampling"] == "3");
  BOOST_TEST(says["attention.fallbacks"] == "0");
  // A plug-in without the operators, or with arguments unknown here: products and a softmax.
  for (const char* fault : {"no_attention", "other_attention"}) {
    says = probe({"attention"}, card({{"CIRRUS_FAKE_HPU_FAULT", fault}}));
    BOOST_TEST(std::stod(says["attention.difference"]) < 1e-6);
    BOOST_TEST(says["attention.forward"] == "0");
    BOOST_TEST(says["attention.fallbacks"] == "0");
  }
}

BOOST_AUTO_TEST_CASE(a_whole_program_leaves_a_report) {
  const ScratchFolder folder;
  const std::string file = (folder / "report.json").string();
  probe({"steps", "host_operator"}, card({{"CIRRUS_FAKE_HPU_REPORT", file}}));
  const auto report = nlohmann::json::parse(contents(file));
  BOOST_TEST(report.at("counts").at("flushes") == 10);
  BOOST_TEST(report.at("counts").at("fallbacks") == 5);
  BOOST_TEST(report.at("fallbacks").size() == 1u);
  BOOST_TEST(report.at("operations").contains("aten::convolution"));
  // An operator on the host is an error where the user forbids it.
  check_failure({"host_operator"}, card({{"PT_HPU_PLACE_ON_CPU", "none"}}), 1, {"aten::i0", "PT_HPU_PLACE_ON_CPU"});
}

BOOST_AUTO_TEST_SUITE_END()
