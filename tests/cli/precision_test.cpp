// --dtype bf16 is as good as fp32: on fields of the frozen validation set the error of the mean and the power spectrum
// of a sample change by no more than 1 %. Results in float32 are what bfloat16 is held against; the truth judges both.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/base/scratch_folder.h"
#include "tests/cli/subprocess.h"

using namespace cirrus::test;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(slow_precision)

BOOST_AUTO_TEST_CASE(bfloat16_changes_errors_and_spectra_by_no_more_than_a_hundredth) {
  const char* data = std::getenv("CIRRUS_TEST_DATA");
  if (data == nullptr) {
    BOOST_TEST_MESSAGE("skipped: CIRRUS_TEST_DATA does not say where the validation set is");
    return;
  }
  const ScratchFolder folder;
  for (const char* number : {"01", "04", "10"})  // of three families
    for (const char* kind : {"truth", "block_x4", "beam_x4"}) {
      const std::string name = std::string(number) + "_" + kind + ".fits";
      fs::create_symlink(fs::path(data) / "validation" / name, folder / name);
    }
  for (const char* mode : {"block", "beam"}) {
    const auto mean = [&](const char* dtype) {
      const Outcome o = run("cirrus", {"evaluate", "--set", folder.path().string(), "--mode", mode, "--methods",
                                       "mean,sample", "--dtype", dtype, "--json", "--quiet"});
      BOOST_TEST_REQUIRE(o.code == 0, o.err);
      return nlohmann::json::parse(o.out).at("mean").at(mode);
    };
    const nlohmann::json full = mean("fp32"), half = mean("bf16");
    for (const auto& [method, figure] : {std::pair{"mean", "rT"}, {"mean", "rL"}, {"sample", "ps"}}) {
      const double a = full.at(method).at(figure), b = half.at(method).at(figure);
      BOOST_TEST(b == a, boost::test_tools::tolerance(0.01) << mode << " " << method << " " << figure);
      BOOST_TEST_MESSAGE(mode << " " << method << " " << figure << ": fp32 " << a << ", bf16 " << b);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
