// `cirrus enhance` and inputs, flags and surroundings that are wrong: each ends with its exit code, says what to do,
// and leaves nothing behind.
#include <pwd.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <thread>

#include "tests/cli/enhance_folder.h"

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct Hostile : EnhanceFolder {
  /// Runs and expects a refusal that names `part` and leaves no file behind.
  void fails(int code, const std::vector<std::string>& words, const std::string& part) {
    const std::size_t before = files();
    const Outcome outcome = enhance(words);
    std::string line;
    for (const std::string& word : words) line += " " + word;
    BOOST_TEST(outcome.code == code, line << " ended with " << outcome.code << ": " << outcome.err);
    BOOST_TEST(contains(outcome.err, "error: "), line);
    BOOST_TEST(contains(outcome.err, part), line << ": " << outcome.err << " should say " << part);
    BOOST_TEST(files() == before, line << " left a file behind");
  }

  void raw(const std::string& name, const std::string& header_lines, std::size_t bytes) {
    put(at(name), fits::Header::from_lines(header_lines).text() + std::string(bytes, '\0'));
  }
};

const char* kPlain =
    "SIMPLE  =                    T\nBITPIX  =                  -32\nNAXIS   =                    2\nNAXIS1  =         "
    "           8\nNAXIS2  =                    8\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(enhance_hostile_input)

BOOST_FIXTURE_TEST_CASE(files_that_are_no_maps, Hostile) {
  const std::string whole = bytes("map.fits");
  put(at("text.fits"), "this is no map\n");
  put(at("empty.fits"), "");
  put(at("cut.fits"), whole.substr(0, whole.size() - 2880));
  put(at("header_only.fits"), whole.substr(0, 2880));
  put(at("half_header.fits"), whole.substr(0, 400));
  std::string no_end = whole.substr(0, 2880);
  no_end.replace(no_end.find("END     "), 3, "   ");
  put(at("no_end.fits"), no_end);
  raw("nothing.fits",
      "SIMPLE  =                    T\nBITPIX  =                    8\nNAXIS   =                    0\n", 0);
  raw("one.fits",
      "SIMPLE  =                    T\nBITPIX  =                  -32\nNAXIS   =                    2\nNAXIS1  =       "
      "             1\nNAXIS2  =                    1\n",
      2880);
  raw("huge.fits",
      "SIMPLE  =                    T\nBITPIX  =                  -32\nNAXIS   =                    2\nNAXIS1  =       "
      "    2000000000\nNAXIS2  =           2000000000\n",
      2880);
  raw("negative.fits",
      "SIMPLE  =                    T\nBITPIX  =                  -32\nNAXIS   =                    2\nNAXIS1  =       "
      "            -8\nNAXIS2  =                    8\n",
      2880);
  make_map("nan.fits", 8, 8, "", 1, {1});
  make_map("cube.fits", 8, 8, "", 3);
  make_map("nan_cube.fits", 8, 8, "", 2, {1, 2});
  fs::create_directory(at("folder.fits"));
  fails(65, {"text.fits"}, "text.fits");
  fails(65, {"empty.fits"}, "empty.fits");
  fails(65, {"cut.fits"}, "truncated");
  fails(65, {"header_only.fits"}, "truncated");
  fails(65, {"half_header.fits"}, "half_header.fits");
  fails(65, {"no_end.fits"}, "no_end.fits");
  fails(65, {"nothing.fits"}, "no data");
  fails(65, {"one.fits"}, "1 x 1");
  fails(65, {"huge.fits"}, "huge.fits");
  fails(65, {"negative.fits"}, "negative.fits");
  fails(65, {"nan.fits"}, "no pixel");
  fails(65, {"cube.fits"}, "--all-planes");
  fails(65, {"nan_cube.fits", "--all-planes"}, "no pixel");
  make_map("beam.fits", 8, 8, "BMAJ    = 1e9\nBMIN    = 1e9\n");  // memory must not grow with what a header says
  fails(65, {"beam.fits"}, "BMAJ");
  fails(65, {"folder.fits"}, "folder");
  BOOST_TEST_REQUIRE(mkfifo(at("pipe.fits").c_str(), 0600) == 0);
  fails(65, {"pipe.fits"}, "- < pipe.fits");
  fails(65, {"/dev/zero"}, "/dev/zero");
  make_map("magnitudes.fits", 8, 8, "BUNIT   = 'mag/arcsec^2'\n");
  fails(65, {"magnitudes.fits"}, "magnitudes.fits");
  // float32 ends at 3.4e38: a block mean there has brighter pixels in it.
  std::vector<float> bright(64, 1e37F);
  bright[27] = 3.3e38F;
  const fits::OutputHdu edge{"", {}, std::span<const float>(bright), {8, 8}};
  fits::write_images(at("edge.fits").string(), {&edge, 1}, {});
  fails(65, {"edge.fits", "--beam", "none", "--no-consistency", "--members", "8"}, "not finite");
  make_map("wide.fits", 8, 8, "BMAJ    = 0.0\n");
  fails(65, {"wide.fits"}, "wide.fits: BMAJ = 0.0");
  fails(66, {"absent.fits"}, "absent.fits");
  fails(66, {"@absent.txt"}, "absent.txt");
  fails(64, {"map.fits[SCI]"}, "map.fits");
  fails(64, {"map.fits", "--hdu", "7"}, "--hdu");
}

BOOST_FIXTURE_TEST_CASE(a_header_of_a_hundred_thousand_cards_survives, Hostile) {
  std::string lines = kPlain;
  for (int i = 0; i < 100000; ++i) lines += "HISTORY line " + std::to_string(i) + "\n";
  raw("long.fits", lines, 2880);
  const Outcome outcome = enhance({"long.fits", "--beam", "none", "--sampler", "mean", "--no-png"});
  BOOST_TEST(outcome.code == 0, outcome.err);
  const fits::Image out = image("long_x4.fits");
  BOOST_TEST(out.header.size() > 100000u);
  BOOST_TEST(contains(out.header.commentary("HISTORY").at(99999), "99999"));
}

BOOST_FIXTURE_TEST_CASE(stdin_that_stays_empty_heeds_signals, Hostile) {
  int ends[2];
  BOOST_TEST_REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    ::signal(SIGINT, SIG_DFL);
    dup2(ends[0], STDIN_FILENO);
    close(ends[1]);
    execl(program_path("cirrus").c_str(), "cirrus", "enhance", "-", "--model",
          (scratch / "models/dust-x4.safetensors").c_str(), "-o", at("out.fits").c_str(), nullptr);
    _exit(127);
  }
  // The handlers stand once the program proper runs; signals before that end it too, with another code.
  int status = 0;
  for (int tries = 0; tries < 600 && waitpid(child, &status, WNOHANG) == 0; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (tries == 30) kill(child, SIGTERM);
  }
  close(ends[0]);
  close(ends[1]);
  BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 130), status);
}

BOOST_FIXTURE_TEST_CASE(a_bad_map_does_not_keep_the_others_from_being_enhanced, Hostile) {
  make_map("nan.fits", 8, 8, "", 1, {1});
  make_map("last.fits", 8, 8);
  const Outcome outcome = enhance({"map.fits", "nan.fits", "last.fits", "--beam", "none", "--no-png", "--json"});
  BOOST_TEST(outcome.code == 65);
  BOOST_TEST(contains(outcome.err, "not enhanced: nan.fits"), outcome.err);
  const json maps = json::parse(outcome.out)["maps"];
  BOOST_TEST(maps[0]["output"] == "map_x4.fits");
  BOOST_TEST(maps[1]["error"]["code"] == 65);
  BOOST_TEST(maps[2]["output"] == "last_x4.fits");
  BOOST_TEST(fs::exists(at("last_x4.fits")));
  BOOST_TEST(!fs::exists(at("nan_x4.fits")));
}

BOOST_FIXTURE_TEST_CASE(coordinates_that_make_no_sense_are_not_called_checked, Hostile) {
  using Cards = std::map<std::string, std::string>;
  for (const auto& [key, value] :
       Cards{{"CDELT1", "NaN"}, {"CDELT2", "0.0"}, {"CRPIX1", "1e300"}, {"CRVAL1", "'east'"}, {"CRVAL2", "95.0"}}) {
    Cards cards{{"CTYPE1", "'RA---TAN'"}, {"CTYPE2", "'DEC--TAN'"}, {"CRVAL1", "83.5"},  {"CRVAL2", "-5.25"},
                {"CRPIX1", "4.25"},       {"CRPIX2", "7.5"},        {"CDELT1", "-0.01"}, {"CDELT2", "0.01"}};
    cards[key] = value;
    std::string lines = kPlain;
    for (const auto& [name, text] : cards) lines += name + "  = " + text + "\n";
    raw("odd.fits", lines, 2880);
    const Outcome outcome = done({"odd.fits", "--beam", "none", "--no-png", "--overwrite", "--sampler", "mean"});
    const fits::Header out = image("odd_x4.fits").header;
    BOOST_TEST(!out.get<bool>("SRWCSOK").value(), key);
    BOOST_TEST(contains(outcome.err, "SRWCSOK = F"), key << ": " << outcome.err);
    for (const fits::Card& card : out.cards())  // FITS knows no NaN: what stood there became a comment
      BOOST_TEST(card.value_text() != "NaN", card.text());
  }
}

BOOST_FIXTURE_TEST_CASE(one_wrong_input_among_many_is_found_before_the_work, Hostile) {
  put(at("text.fits"), "this is no map\n");
  fails(65, {"map.fits", "text.fits"}, "text.fits");
  fails(66, {"map.fits", "absent.fits"}, "absent.fits");
  fs::create_directory(at("other"));
  fs::copy_file(at("map.fits"), at("other/map.fits"));
  fails(73, {"map.fits", "other/map.fits"}, "two inputs");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(enhance_wrong_flags)

BOOST_FIXTURE_TEST_CASE(each_kind_of_mistake_has_its_code_and_a_remedy, Hostile) {
  put(at("bad.toml"), "\nfactr = 4\n");
  put(at("broken.toml"), "factor = \n");
  put(at("model.safetensors"), "not a model");
  write_tiny_model(at("three.safetensors"), tiny_card(3));
  make_map("cube.fits", 8, 8, "", 2);
  fails(64, {}, "needs IN.fits");
  fails(64, {"map.fits", "--facto", "4"}, "did you mean --factor?");
  fails(64, {"map.fits", "--factor", "four"}, "not a whole number");
  fails(64, {"map.fits", "--factor", "1"}, "--factor 1");
  fails(66, {"map.fits", "--factor", "7"}, "only for 2, 4");
  fails(73, {"map.fits", "--log", "nowhere/log.txt"}, "no such folder");
  fails(73, {"map.fits", "-o", std::string(251, 'a') + ".fits"}, "-o");
  fails(64, {"map.fits", "--sampler", "hein"}, "did you mean heun?");
  fails(64, {"map.fits", "--preset", "slow"}, "--preset");
  fails(64, {"map.fits", "--unit-type", "flux"}, "--unit-type");
  fails(64, {"map.fits", "--tile", "big"}, "--tile");
  fails(64, {"map.fits", "--tile", "8"}, "at least 16");
  fails(64, {"map.fits", "--overlap", "half"}, "--overlap");
  fails(64, {"map.fits", "--beam", "wide"}, "wide");
  fails(64, {"map.fits", "--beam", "0"}, "positive");
  fails(65, {"map.fits", "--beam", "1e5"}, "pixels wide");
  fails(64, {"map.fits", "--beam", "none", "--beam-out", "3"}, "--beam-out");
  fails(64, {"map.fits", "--beam", "20", "--noise", "loud"}, "positive number");
  fails(64, {"map.fits", "--members", "0"}, "--members 0");
  fails(64, {"map.fits", "--steps", "1"}, "--steps 1");
  fails(64, {"map.fits", "--churn", "1"}, "heun");
  fails(64, {"map.fits", "--device", "gpu"}, "cuda");
  fails(64, {"map.fits", "--dtype", "fp8"}, "--dtype");
  fails(64, {"map.fits", "--threads", "-1"}, "--threads");
  fails(64, {"map.fits", "-o", "-"}, "stdout");
  fails(64, {"map.fits", "map.fits", "-o", "x.fits"}, "--output names one file");
  fails(64, {"map.fits", "--model", "three.safetensors", "--factor", "4"}, "by 3");
  fails(64, {"cube.fits", "--plane", "1", "--all-planes"}, "contradict");
  fails(64, {"cube.fits", "--plane", "3"}, "--plane 1 to 2");
  fails(64, {"-", "--all-planes"}, "stdin");
  fails(64, {"map.fits", "--compress", "-o", "x.fits.gz"}, "--compress");
  fails(65, {"map.fits", "--model", "model.safetensors"}, "model.safetensors");
  fails(66, {"map.fits", "--model", "dust-x9"}, "CIRRUS_MODELS");
  fails(69, {"map.fits", "--device", "cuda"}, "cuda");
  fails(73, {"map.fits", "-o", "map.fits"}, "map.fits");
  fails(73, {"map.fits", "-o", "nowhere/x.fits"}, "nowhere");
  fails(78, {"map.fits", "--config", "bad.toml"}, "did you mean factor?");
  fails(78, {"map.fits", "--config", "broken.toml"}, "broken.toml");
  fails(78, {"map.fits", "--set", "membrs=3"}, "did you mean members?");
  settings.environment["SOURCE_DATE_EPOCH"] = "yesterday";
  fails(78, {"map.fits", "--beam", "none"}, "SOURCE_DATE_EPOCH");
}

BOOST_FIXTURE_TEST_CASE(strict_makes_a_warning_an_error, Hostile) {
  make_map("unit.fits", 12, 10, "");
  fails(65, {"unit.fits", "--beam", "none", "--strict"}, "--strict");
  BOOST_TEST(enhance({"map.fits", "--beam", "none", "--strict"}).code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(enhance_outputs_protected)

BOOST_FIXTURE_TEST_CASE(neither_the_input_nor_an_existing_file_is_overwritten, Hostile) {
  const std::string original = bytes("map.fits");
  fs::create_symlink("map.fits", at("link.fits"));
  fs::create_hard_link(at("map.fits"), at("hard.fits"));
  fails(73, {"map.fits", "-o", "map.fits", "--overwrite"}, "input");
  fails(73, {"map.fits", "-o", "!map.fits"}, "input");
  fails(73, {"map.fits", "-o", "link.fits", "--overwrite"}, "input");
  fails(73, {"link.fits", "-o", "map.fits", "--overwrite"}, "input");
  fails(73, {"map.fits", "-o", "hard.fits", "--overwrite"}, "input");
  fails(73, {"map.fits", "-o", "./../work/map.fits", "--overwrite"}, "input");
  BOOST_TEST(bytes("map.fits") == original);

  put(at("map_x4.fits"), "precious");
  fails(73, {"map.fits", "--beam", "none"}, "--overwrite");
  BOOST_TEST(bytes("map_x4.fits") == "precious");
  fs::remove(at("map_x4.fits"));
  put(at("map_x4.png"), "precious");
  fails(73, {"map.fits", "--beam", "none"}, "map_x4.png");
  BOOST_TEST(bytes("map_x4.png") == "precious");
  BOOST_TEST(enhance({"map.fits", "--beam", "none", "-o", "!map_x4.fits"}).code == 0);
  BOOST_TEST(bytes("map_x4.png").starts_with("\x89PNG"));
  BOOST_TEST(image("map_x4.fits").width == 48);
}

BOOST_FIXTURE_TEST_CASE(a_folder_that_may_not_be_written, Hostile) {
  fs::create_directory(at("closed"));
  fs::permissions(at("closed"), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read |
                                    fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec);
  const std::vector<std::string> words{"map.fits", "--beam", "none", "-o", "closed/x.fits"};
  if (geteuid() != 0) {
    fails(73, words, "closed");
    return;
  }
  const passwd* nobody = getpwnam("nobody");
  if (nobody == nullptr || !fs::exists("/usr/bin/setpriv")) {
    BOOST_TEST_MESSAGE("skipped: as root, without setpriv and the user nobody, every folder can be written");
    return;
  }
  fs::permissions(scratch.path(), fs::perms::all);  // nobody must reach the map and the model, not write beside them
  std::vector<std::string> as_nobody{
      "--reuid",        std::to_string(nobody->pw_uid),  "--regid", std::to_string(nobody->pw_gid),
      "--clear-groups", program_path("cirrus").string(), "enhance"};
  as_nobody.insert(as_nobody.end(), words.begin(), words.end());
  const Outcome outcome = run("/usr/bin/setpriv", as_nobody, settings);
  if (outcome.code == 127 || outcome.code == 126 || contains(outcome.err, "setpriv:")) {
    BOOST_TEST_MESSAGE("skipped: the user nobody cannot run the program: " << outcome.err);
    return;
  }
  BOOST_TEST(outcome.code == 73, outcome.err);
  BOOST_TEST(contains(outcome.err, "closed"));
  BOOST_TEST(fs::is_empty(at("closed")));
}

BOOST_FIXTURE_TEST_CASE(a_full_disk_is_74_and_leaves_nothing, Hostile) {
  settings.file_size = 20000;  // the mean of a 48 x 40 map and its header fit, the extensions do not
  const std::size_t before = files();
  const Outcome outcome = enhance({"map.fits", "--beam", "none"});
  BOOST_TEST(outcome.code == 74, outcome.err);
  BOOST_TEST(contains(outcome.err, "map_x4.fits"));
  BOOST_TEST(files() == before);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(enhance_interrupted)

BOOST_FIXTURE_TEST_CASE(while_sampling_nothing_is_left, Hostile) {
  make_map("large.fits", 64, 64);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    settings.signal_after_first_output = signal;
    const std::size_t before = files();
    const Outcome outcome = enhance({"large.fits", "--beam", "none", "--members", "64", "--steps", "200"});
    BOOST_TEST(outcome.code == 130, outcome.code << ": " << outcome.err);
    BOOST_TEST(files() == before);
  }
}

BOOST_FIXTURE_TEST_CASE(while_writing_the_file_is_whole_or_absent, Hostile) {
  make_map("large.fits", 128, 128);
  const std::vector<std::string> words{"enhance",        "large.fits", "-o",       "out.fits", "--beam",
                                       "none",           "--members",  "24",       "--steps",  "2",
                                       "--save-members", "--compress", "--no-png", "--dtype",  "fp32"};
  bool stopped = false;
  for (int attempt = 0; attempt < 5 && !stopped; ++attempt) {
    const std::size_t before = files();
    std::atomic<bool> ended = false;
    // The signal comes once the temporary file is there.
    Outcome outcome;
    std::thread program([&] {
      outcome = run("/bin/sh",
                    {"-c", "echo $$ > '" + (scratch / "pid").string() + "'; exec \"$0\" \"$@\"",
                     program_path("cirrus").string(), words[0], words[1], words[2], words[3], words[4], words[5],
                     words[6], words[7], words[8], words[9], words[10], words[11], words[12], words[13], words[14]},
                    settings);
      ended = true;
    });
    while (!ended && files() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!ended) kill(static_cast<pid_t>(std::stol(contents(scratch / "pid"))), SIGINT);
    program.join();
    stopped = outcome.code == 130;
    BOOST_TEST((outcome.code == 130 || outcome.code == 0), outcome.code << ": " << outcome.err);
    if (stopped) {
      BOOST_TEST(files() == before, "a partial file was left");
    } else {
      BOOST_TEST(image("out.fits", "MASK").width == 512);  // the last HDU
      fs::remove(at("out.fits"));
    }
  }
  BOOST_TEST(stopped, "the program never noticed the signal while it wrote");
}

BOOST_AUTO_TEST_SUITE_END()
