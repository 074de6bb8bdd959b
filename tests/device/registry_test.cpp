// Devices by name: the contract on each kind, what a name opens, and what is said where nothing is there.
#include "device/cpu/cpu_device.h"
#include "tests/cli/subprocess.h"
#include "tests/device/contract.h"
#include "tests/device/fake_backend.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

/// Expects Error of that code whose text holds all `parts`.
template <typename F>
void check_error(F&& f, ExitCode code, const std::vector<std::string>& parts) {
  try {
    f();
    BOOST_ERROR("no error");
  } catch (const Error& e) {
    BOOST_TEST(static_cast<int>(e.code()) == static_cast<int>(code), e.what());
    for (const std::string& part : parts)
      BOOST_TEST(contains(e.what(), part), "'" << part << "' is not in: " << e.what());
  }
}

/// What device_probe says with that folder of modules.
test::Outcome probe(const std::string& name, const std::filesystem::path& modules) {
  return run(CIRRUS_DEVICE_PROBE, {name}, {.environment = {{"CIRRUS_MODULE_PATH", modules.string()}}});
}

const std::filesystem::path kModules = CIRRUS_FAKE_MODULES;

}  // namespace

BOOST_AUTO_TEST_SUITE(contract)

BOOST_AUTO_TEST_CASE(the_cpu_keeps_it) {
  const auto cpu = device::open_device("cpu");
  check_contract(*cpu);
  BOOST_TEST(cpu->torch_device().is_cpu());
  BOOST_TEST(cpu->capabilities().collective_backend == "mpi");
}

BOOST_AUTO_TEST_CASE(a_registered_backend_keeps_it) {
  static FakeBackend backend("fake-contract", -1);
  device::register_backend(&backend);
  check_contract(*device::open_device("fake-contract:1"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(registry)

BOOST_AUTO_TEST_CASE(a_name_opens_its_device) {
  static FakeBackend backend("fake", -1);
  device::register_backend(&backend);
  BOOST_TEST(device::open_device("fake")->name() == "fake number 0");
  BOOST_TEST(device::open_device("fake:1")->name() == "fake number 1");
  BOOST_TEST(device::open_device("cpu:0")->name() == device::open_device("cpu")->name());
}

BOOST_AUTO_TEST_CASE(unknown_names_are_usage_errors_that_list_the_names) {
  static FakeBackend backend("fake", -1);
  device::register_backend(&backend);
  for (const char* name :
       {"", "toaster", "CPU", "fake:", "fake:x", "fake:-1", "fake:1x", "fake:99999", "auto:0", " cpu", "cpu,cuda"})
    check_error([&] { device::open_device(name); }, ExitCode::usage,
                {"Unknown device '" + std::string(name) + "'", "cuda:N"});
}

BOOST_AUTO_TEST_CASE(missing_devices_are_unavailable_with_a_remedy) {
  static FakeBackend backend("fake", -1), absent("absent", 100, 0);
  device::register_backend(&backend);
  device::register_backend(&absent);
  check_error([] { device::open_device("fake:2"); }, ExitCode::unavailable,
              {"has 2 fake device(s)", "use fake:0 to fake:1"});
  check_error([] { device::open_device("cpu:1"); }, ExitCode::unavailable, {"cpu"});
  check_error([] { device::open_device("absent"); }, ExitCode::unavailable,
              {"no card answers; reseat it", "--device cpu"});
  BOOST_TEST(device::open_device("auto")->name() != "absent number 0");
}

BOOST_AUTO_TEST_CASE(auto_takes_the_available_backend_of_the_highest_score) {
  static FakeBackend high("high", 1000), higher("higher", 2000), highest_but_absent("absent", 3000, 0);
  device::register_backend(&high);
  BOOST_TEST(device::open_device("auto")->name() == "high number 0");
  device::register_backend(&higher);
  device::register_backend(&highest_but_absent);
  BOOST_TEST(device::open_device("auto")->name() == "higher number 0");
  // A second backend of a kind takes the first one's place.
  static FakeBackend lower("higher", -1, 7), low("high", -1);
  device::register_backend(&lower);
  device::register_backend(&low);
  const auto all = device::backends();
  BOOST_TEST(std::count_if(all.begin(), all.end(), [](const device::Backend* b) { return b->kind() == "higher"; }) ==
             1);
  BOOST_TEST(device::open_device("higher:6")->name() == "higher number 6");
}

BOOST_AUTO_TEST_CASE(dtypes_are_resolved_by_what_the_device_runs_fast) {
  const FakeDevice v100("v100", {at::kHalf, at::kFloat}), a100("a100", {at::kFloat, at::kBFloat16, at::kHalf}),
      plain("plain", {at::kFloat});
  BOOST_TEST((device::resolve_dtype("auto", a100) == at::kBFloat16));
  BOOST_TEST((device::resolve_dtype("auto", v100) == at::kFloat));
  BOOST_TEST((device::resolve_dtype("auto", plain) == at::kFloat));
  BOOST_TEST((device::resolve_dtype("bf16", plain) == at::kBFloat16));  // emulated: slow but right
  BOOST_TEST((device::resolve_dtype("fp16", v100) == at::kHalf));
  check_error([&] { device::resolve_dtype("fp16", plain); }, ExitCode::unavailable,
              {"fp16", "plain", "--dtype bf16 or fp32"});
  check_error([&] { device::resolve_dtype("fp8", plain); }, ExitCode::usage, {"'fp8'", "auto, fp32, bf16 or fp16"});
  BOOST_TEST(device::dtype_name(at::kFloat) == "fp32");
  BOOST_TEST(device::dtype_name(at::kBFloat16) == "bf16");
  BOOST_TEST(device::dtype_name(at::kHalf) == "fp16");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(modules)

BOOST_AUTO_TEST_CASE(a_module_that_fits_is_loaded) {
  const test::Outcome named = probe("hpu:1", kModules / "fits"), automatic = probe("auto", kModules / "fits");
  BOOST_TEST(named.code == 0);
  BOOST_TEST(named.out == "hpu number 1\n");
  BOOST_TEST(automatic.out == "hpu number 0\n");  // it scores above the CPU
}

BOOST_AUTO_TEST_CASE(the_cpu_is_opened_without_any_module) {
  const ScratchFolder folder;
  put(folder / "libcirrus_hpu.so", "not a library");
  const test::Outcome cpu = probe("cpu", folder.path());
  BOOST_TEST(cpu.code == 0);
  BOOST_TEST(cpu.err == "");
}

BOOST_AUTO_TEST_CASE(modules_that_do_not_fit_are_unavailable_and_say_why) {
  const ScratchFolder folder, empty;
  put(folder / "libcirrus_hpu.so", "not a library");
  put(folder / "libcirrus_cuda.so", "");
  const auto says = [](const test::Outcome& o, const std::string& part) {
    BOOST_TEST(o.code == 69);
    BOOST_TEST(contains(o.err, part), "'" << part << "' is not in: " << o.err);
    BOOST_TEST(contains(o.err, "--device cpu"));
    BOOST_TEST(o.out == "");
  };
  says(probe("hpu", kModules / "other_abi"), "belongs to another version of Cirrus: rebuild it");
  says(probe("hpu", kModules / "no_module"), "is not a Cirrus module");
  says(probe("hpu", folder.path()), "does not load");
  says(probe("cuda", folder.path()), "Device 'cuda' is not available");  // without a driver it is not even tried
  says(probe("hpu", empty.path()), "no module for Intel Gaudi");
  says(probe("cuda:3", empty.path()), "no module for NVIDIA GPUs");
  // Copies that were cut off, which the loader would map, and die in.
  for (const char* name : {"hpu", "cuda"}) {
    const std::string file = std::string("libcirrus_") + name + ".so",
                      whole = contents(std::filesystem::path(CIRRUS_MODULES) / "libcirrus_hpu.so");
    BOOST_TEST_REQUIRE(whole.size() > 50000u);
    for (const std::size_t bytes : {std::size_t{40}, std::size_t{40000}, whole.size() / 2, whole.size() - 1}) {
      const ScratchFolder cut;
      put(cut / file, whole.substr(0, bytes));
      if (std::string(name) == "hpu") says(probe(name, cut.path()), "cut off");
      const test::Outcome automatic = probe("auto", cut.path());
      BOOST_TEST(automatic.code == 0, automatic.err);
    }
  }
  // One broken module takes nothing from the rest.
  BOOST_TEST(probe("auto", folder.path()).code == 0);
}

BOOST_AUTO_TEST_SUITE_END()
