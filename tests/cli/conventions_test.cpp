// What is common to all programs, seen from outside on cirrus-data: exit codes, what goes where, nothing overwritten,
// no half file.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/subprocess.h"

using namespace cirrus::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct Folder {
  ScratchFolder scratch;
  RunSettings settings{.folder = scratch.path()};
  Outcome data(const std::vector<std::string>& words) { return run("cirrus-data", words, settings); }
  Folder() { BOOST_TEST_REQUIRE(data({"synth", "-o", "map.fits", "--size", "32"}).code == 0); }
  std::string map_bytes() { return contents(scratch / "map.fits"); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(exit_codes)

BOOST_FIXTURE_TEST_CASE(each_kind_of_failure_has_its_code_and_says_what_to_do, Folder) {
  const auto fails = [&](int code, const std::vector<std::string>& words, const std::string& part) {
    const Outcome outcome = data(words);
    BOOST_TEST(outcome.code == code, words.back() << " ended with " << outcome.code);
    BOOST_TEST(contains(outcome.err, "error: "));
    BOOST_TEST(contains(outcome.err, part), outcome.err << " should say " << part);
    BOOST_TEST(outcome.out.empty(), outcome.out);
  };
  put(scratch / "text.fits", "this is no map\n");
  put(scratch / "bad.toml", "\nfactr = 4\n");
  fs::create_directory(scratch / "folder");
  fails(64, {"degrde", "map.fits"}, "did you mean degrade?");
  fails(64, {}, "needs a verb");
  fails(64, {"degrade"}, "needs IN.fits");
  fails(64, {"degrade", "map.fits", "--facto", "4"}, "did you mean --factor?");
  fails(64, {"degrade", "map.fits", "--factor", "four"}, "--factor four: not a whole number");
  fails(64, {"degrade", "map.fits", "--beam-out", "big"}, "big");
  fails(65, {"degrade", "map.fits", "--beam-out", "1e9"}, "wider than the map");
  fails(64, {"synth", "-o", "x.fits", "--size", "4"}, "--size 4");
  fails(64, {"synth", "-o", "x.fits", "--family", "cascde"}, "did you mean cascade?");
  fails(65, {"degrade", "text.fits"}, "text.fits");
  fails(65, {"degrade", "map.fits", "--factor", "64"}, "smaller than one output pixel");
  fails(66, {"degrade", "none.fits"}, "none.fits");
  fails(66, {"info", "@none.txt"}, "none.txt");
  fails(69, {"degrade", "map.fits", "--device", "cuda"}, "cuda");
  fails(73, {"degrade", "map.fits", "-o", "map.fits"}, "map.fits");
  fails(73, {"degrade", "map.fits", "-o", "map.fits", "--overwrite"}, "input");
  fails(73, {"degrade", "map.fits", "-o", "nowhere/x.fits"}, "nowhere");
  fails(73, {"degrade", "map.fits", "-o", "folder"}, "folder");
  put(scratch / "there.png", "a picture");
  fails(73, {"quicklook", "map.fits", "-o", "there.png"}, "--overwrite");
  fails(64, {"quicklook", "map.fits", "-o", "picture.jpg"}, "PNG");
  fails(78, {"degrade", "map.fits", "--config", "bad.toml"},
        "bad.toml, line 2: unknown key factr (did you mean factor?)");
  fails(78, {"degrade", "map.fits", "--set", "nois=1"}, "did you mean noise?");
}

BOOST_FIXTURE_TEST_CASE(with_json_stdout_is_one_object_in_success_and_failure, Folder) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"info", "map.fits"},
                                             {"quicklook", "map.fits"},
                                             {"degrade", "map.fits"},
                                             {"synth", "-o", "s.fits", "--size", "16"}}) {
    std::vector<std::string> with_json = words;
    with_json.push_back("--json");
    const Outcome good = data(with_json);
    BOOST_TEST(good.code == 0);
    BOOST_TEST(json::parse(good.out).contains("warnings"));
    with_json.push_back("--bogus");
    const Outcome bad = data(with_json);
    BOOST_TEST(bad.code == 64);
    BOOST_TEST(json::parse(bad.out)["error"]["code"] == 64);
    BOOST_TEST(contains(bad.err, "--bogus"));
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(output_files)

BOOST_FIXTURE_TEST_CASE(nothing_is_overwritten_unless_told, Folder) {
  BOOST_TEST(data({"degrade", "map.fits", "-o", "low.fits"}).code == 0);
  const std::string before = contents(scratch / "low.fits");
  BOOST_TEST(data({"degrade", "map.fits", "-o", "low.fits", "--noise", "1"}).code == 73);
  BOOST_TEST(contents(scratch / "low.fits") == before);
  BOOST_TEST(data({"degrade", "map.fits", "-o", "!low.fits", "--noise", "1"}).code == 0);
  BOOST_TEST(contents(scratch / "low.fits") != before);
  BOOST_TEST(data({"degrade", "map.fits", "-o", "low.fits", "--overwrite"}).code == 0);
}

BOOST_FIXTURE_TEST_CASE(a_full_disk_is_74_and_leaves_nothing, Folder) {
  const std::size_t before = scratch.count();
  settings.file_size = 4000;  // less than the two blocks of a small map
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"synth", "-o", "big.fits", "--size", "64"},
                                             {"degrade", "map.fits", "-o", "big.fits", "--factor", "1"},
                                             {"quicklook", "map.fits", "-o", "big.png"}}) {
    const Outcome outcome = data(words);
    BOOST_TEST(outcome.code == 74, words[0] << " ended with " << outcome.code << ": " << outcome.err);
    BOOST_TEST(contains(outcome.err, "big."));
    BOOST_TEST(scratch.count() == before);
  }
}

BOOST_FIXTURE_TEST_CASE(a_dry_run_writes_nothing_and_says_what_it_would, Folder) {
  const Outcome outcome = data({"degrade", "map.fits", "--dry-run"});
  BOOST_TEST(outcome.code == 0);
  BOOST_TEST(contains(outcome.out, "would read map.fits, 32 x 32 pixels"));
  BOOST_TEST(contains(outcome.out, "map_d4.fits, 8 x 8 pixels"));
  BOOST_TEST(data({"synth", "-o", "s.fits", "--dry-run"}).code == 0);
  BOOST_TEST(data({"quicklook", "map.fits", "--dry-run"}).code == 0);
  BOOST_TEST(scratch.count() == 1u);
}

BOOST_FIXTURE_TEST_CASE(source_date_epoch_gives_equal_bytes, Folder) {
  settings.environment["SOURCE_DATE_EPOCH"] = "1700000000";
  const std::vector<std::string> words = {"degrade", "map.fits", "-o", "low.fits", "--overwrite", "--noise", "0.1"};
  BOOST_TEST(data(words).code == 0);
  const std::string first = contents(scratch / "low.fits");
  BOOST_TEST(contains(first, "2023-11-14T22:13:20"));
  BOOST_TEST(data(words).code == 0);
  BOOST_TEST(contents(scratch / "low.fits") == first);
}

BOOST_FIXTURE_TEST_CASE(odd_names_are_taken_literally_where_they_exist, Folder) {
  for (const char* name : {"map[v2].fits", "a+1.fits", "with space.fits", "\xc3\xa9toile.fits"}) {
    fs::copy_file(scratch / "map.fits", scratch / name);
    BOOST_TEST(data({"degrade", name, "-o", "low.fits", "--overwrite"}).code == 0, name);
    BOOST_TEST(data({"quicklook", name, "-o", "q.png", "--overwrite"}).code == 0, name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(configuration)

BOOST_FIXTURE_TEST_CASE(print_config_can_be_read_back, Folder) {
  settings.environment["CIRRUS_NOISE"] = "0.25";
  const Outcome printed_config = data({"degrade", "map.fits", "--factor", "2", "--print-config"});
  BOOST_TEST(printed_config.code == 0);
  BOOST_TEST(contains(printed_config.out, "factor = 2  # flag --factor\n"));
  BOOST_TEST(contains(printed_config.out, "noise = 0.25  # environment variable CIRRUS_NOISE\n"));
  BOOST_TEST(contains(printed_config.out, "stripes = 0.0  # default\n"));
  put(scratch / "saved.toml", printed_config.out);
  settings.environment.clear();
  const Outcome again = data({"degrade", "map.fits", "--config", "saved.toml", "--json", "--overwrite"});
  BOOST_TEST(again.code == 0);
  BOOST_TEST(json::parse(again.out)["noise"] == 0.25);
  BOOST_TEST(json::parse(again.out)["factor"] == 2);
}

BOOST_FIXTURE_TEST_CASE(messages_go_to_stderr_and_the_log_file, Folder) {
  const Outcome normal = data({"degrade", "map.fits", "--log", "run.log"});
  BOOST_TEST(normal.out == "map_d4.fits\n");
  BOOST_TEST(contains(normal.err, "surface brightness"));
  BOOST_TEST(!contains(normal.err, "\033"));
  BOOST_TEST(contains(contents(scratch / "run.log"), "Z info BUNIT"));
  const Outcome quiet = data({"degrade", "map.fits", "--overwrite", "--quiet"});
  BOOST_TEST(quiet.err.empty());
  BOOST_TEST(quiet.out == "map_d4.fits\n");
}

BOOST_FIXTURE_TEST_CASE(only_rank_0_speaks, Folder) {
  settings.environment["PMI_RANK"] = "1";
  const Outcome outcome = data({"info", "map.fits"});
  BOOST_TEST(outcome.code == 0);
  BOOST_TEST(outcome.out.empty());
}

BOOST_FIXTURE_TEST_CASE(every_verb_has_help_and_completion, Folder) {
  const Outcome help = data({"--help"});
  BOOST_TEST(help.code == 0);
  for (const char* verb : {"info", "quicklook", "synth", "degrade"}) {
    BOOST_TEST(contains(help.out, verb));
    const Outcome of_verb = data({"help", verb});
    BOOST_TEST(of_verb.code == 0);
    BOOST_TEST(of_verb.out.starts_with(std::string("cirrus-data ") + verb));
    BOOST_TEST(contains(of_verb.out, "\nDevice and run\n"));
    for (const char* shell : {"bash", "zsh", "fish"}) BOOST_TEST(contains(data({"completion", shell}).out, verb));
  }
}

BOOST_AUTO_TEST_SUITE_END()
