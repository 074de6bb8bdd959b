// What `cirrus enhance` says: console, JSON, dry run, configuration; equal bytes for equal runs.
#include <boost/test/unit_test.hpp>

#include "tests/cli/enhance_folder.h"

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

using Folder = EnhanceFolder;

const std::vector<std::string> kJsonKeys = {"input",           "output",      "factor",     "mode",    "beam_in_arcsec",
                                            "beam_out_arcsec", "beam_source", "unit_class", "members", "evaluations",
                                            "sampler",         "seed",        "device",     "dtype",   "tiles",
                                            "seconds",         "flux_error",  "chi2",       "ood",     "warnings"};

}  // namespace

BOOST_AUTO_TEST_SUITE(enhance_reports)

BOOST_FIXTURE_TEST_CASE(json_is_one_object_with_every_key, Folder) {
  const json j = as_json({"map.fits", "--beam", "none", "--seed", "5"});
  for (const std::string& key : kJsonKeys) BOOST_TEST(j.contains(key), key);
  BOOST_TEST(j["input"] == "map.fits");
  BOOST_TEST(j["output"] == "map_x4.fits");
  BOOST_TEST(j["factor"] == 4);
  BOOST_TEST(j["mode"] == "block");
  BOOST_TEST(j["beam_in_arcsec"].is_null());
  BOOST_TEST(j["beam_out_arcsec"].get<double>() == 5.75, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(j["beam_source"] == "none");
  BOOST_TEST(j["unit_class"] == "brightness");
  BOOST_TEST(j["members"] == 2);
  BOOST_TEST(j["evaluations"] == 2);
  BOOST_TEST(j["sampler"] == "dpmpp");
  BOOST_TEST(j["seed"] == 5);
  BOOST_TEST(j["dtype"] == "fp32");
  for (const char* key : {"size", "overlap", "count"}) BOOST_TEST(j["tiles"].contains(key), key);
  for (const char* key : {"flag", "score", "reason"}) BOOST_TEST(j["ood"].contains(key), key);
  BOOST_TEST(j["flux_error"].get<double>() < 1e-5);
  BOOST_TEST(j["chi2"].is_null());
  BOOST_TEST(j["warnings"].is_array());
  const Outcome failed = enhance({"absent.fits", "--json"});
  BOOST_TEST(json::parse(failed.out)["error"]["code"] == 66);
}

BOOST_FIXTURE_TEST_CASE(warnings_are_told_with_the_map_they_belong_to, Folder) {
  make_map("unitless.fits", 12, 10, "");
  const json j = as_json({"map.fits", "unitless.fits", "--beam", "none"});
  BOOST_TEST(j["maps"][0]["warnings"].empty());
  BOOST_TEST(j["maps"][1]["warnings"].size() >= 1u);
  BOOST_TEST(contains(j["maps"][1]["warnings"][0].get<std::string>(), "unitless.fits"));
}

BOOST_FIXTURE_TEST_CASE(what_was_decided_is_printed_and_quiet_prints_the_file_alone, Folder) {
  const Outcome outcome = done({"map.fits", "--beam", "none"});
  for (const char* part : {"map.fits, 12 x 10 pixels of 10 arcsec", "BUNIT", "block mean of the output is the input",
                           "--beam none", "48 x 40", "2 members of 2 evaluations", "dust-x4", "flux     error",
                           "ds9 map.fits map_x4.fits -scale asinh -lock frame wcs"})
    BOOST_TEST(contains(outcome.out, part), outcome.out << " should say " << part);
  const Outcome quiet = done({"map.fits", "--beam", "none", "--overwrite", "--quiet"});
  BOOST_TEST(quiet.out == "map_x4.fits\n");
  BOOST_TEST(quiet.err.empty(), quiet.err);
}

BOOST_FIXTURE_TEST_CASE(a_dry_run_tells_size_time_and_memory_and_writes_nothing, Folder) {
  const Outcome outcome = done({"map.fits", "--beam", "none", "--dry-run"});
  for (const char* part : {"48 x 40", "Tflop", "about ", "GB of memory", "nothing written"})
    BOOST_TEST(contains(outcome.out, part), outcome.out);
  BOOST_TEST(files() == 1u);
  make_double("map.fits");
  const json j = as_json({"map.fits", "--beam", "none", "--dry-run", "--save-members", "--double"});
  BOOST_TEST(j["estimated_seconds"].get<double>() > 0);
  BOOST_TEST(j["memory_bytes"].get<double>() > 0);
  done({"map.fits", "--beam", "none", "--save-members", "--double", "--no-png"});
  // The estimate counts pixels; headers and padding come on top, one RESIDUAL is small.
  const double pixels_only = j["output_bytes"].get<double>(),
               real = static_cast<double>(fs::file_size(at("map_x4.fits")));
  BOOST_TEST(real > pixels_only);
  BOOST_TEST(real < pixels_only + 7 * 4 * 2880 + 12 * 10 * 8);
  make_map("unit.fits", 12, 10, "");
  BOOST_TEST(contains(done({"unit.fits", "--beam", "none", "--dry-run"}).err, "warning"));
  make_map("strip.fits", 400, 4);  // what the beam solve takes is told too: most of it lies beyond the borders
  const auto seconds = [&](const std::string& beam) {
    return as_json({"strip.fits", "--beam", beam, "--noise", "0.1", "--dry-run"})["estimated_seconds"].get<double>();
  };
  BOOST_TEST(seconds("24") > 1.5 * seconds("none"));
}

BOOST_FIXTURE_TEST_CASE(print_config_can_be_read_back, Folder) {
  const Outcome config = done({"map.fits", "--beam", "none", "--seed", "9", "--tile", "64", "--print-config"});
  BOOST_TEST(contains(config.out, "beam = \"none\"  # flag --beam\n"));
  BOOST_TEST(contains(config.out, "overlap = \"auto\"  # default\n"));
  BOOST_TEST(files() == 1u);
  put(at("saved.toml"), config.out);
  const Outcome again = enhance({"map.fits", "--config", "saved.toml", "--json"}, true);
  BOOST_TEST_REQUIRE(again.code == 0, again.err);
  const json j = json::parse(again.out);
  BOOST_TEST(j["seed"] == 9);
  BOOST_TEST(j["members"] == 2);
  BOOST_TEST(j["beam_source"] == "none");
}

BOOST_FIXTURE_TEST_CASE(equal_runs_give_equal_bytes, Folder) {
  settings.environment["SOURCE_DATE_EPOCH"] = "1700000000";
  const std::vector<std::string> words{"map.fits", "--beam", "none", "--overwrite"};
  done(words);
  const std::string map = bytes("map_x4.fits"), picture = bytes("map_x4.png");
  BOOST_TEST(contains(map, "2023-11-14T22:13:20"));
  done(words);
  BOOST_TEST(bytes("map_x4.fits") == map);
  BOOST_TEST(bytes("map_x4.png") == picture);
  done({"map.fits", "--beam", "none", "--overwrite", "--seed", "1"});
  BOOST_TEST((image("map_x4.fits").pixels != fits::read_image(at("map.fits").string()).pixels));
  BOOST_TEST(bytes("map_x4.fits") != map);
}

BOOST_FIXTURE_TEST_CASE(the_methods_are_cited, Folder) {
  const Outcome outcome = run("cirrus", {"--cite"}, settings);
  BOOST_TEST(outcome.code == 0);
  for (const char* part : {"@software{cirrus", "2206.00364", "2312.02696", "2211.01095"})
    BOOST_TEST(contains(outcome.out, part));
}

BOOST_AUTO_TEST_SUITE_END()
