// The quick front of a program: what it answers alone, and that everything else reaches the program proper untouched.
#include <boost/test/unit_test.hpp>

#include "tests/cli/subprocess.h"

using namespace cirrus::test;
namespace fs = std::filesystem;

namespace {

/// A copy of the front in a folder of its own, where the program proper is a script that tells how it was started.
struct Installation {
  ScratchFolder scratch;

  Installation() {
    fs::create_directories(scratch / "cirrus/bin");
    fs::create_directories(scratch / "cirrus/libexec");
    fs::copy_file(program_path("cirrus"), scratch / "cirrus/bin/cirrus");
  }
  void install_core(const std::string& script) {
    const fs::path core = scratch / "cirrus/libexec/cirrus-core";
    put(core, "#!/bin/sh\n" + script);
    fs::permissions(core, fs::perms::owner_all);
  }
  Outcome front(const std::vector<std::string>& words, const RunSettings& settings = {}) {
    return run((scratch / "cirrus/bin/cirrus").string(), words, settings);  // an absolute path replaces CIRRUS_BIN
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(launch)

BOOST_FIXTURE_TEST_CASE(help_version_and_mistakes_need_nothing_but_the_front, Installation) {
  for (const char* word : {"--help", "--version", "--cite", "help"}) {
    const Outcome outcome = front({word});
    BOOST_TEST(outcome.code == 0, word << ": " << outcome.err);
    BOOST_TEST(outcome.out == run("cirrus", {word}).out);
    BOOST_TEST(contains(outcome.out, "cirrus"));
  }
  const Outcome mistyped = front({"enhence", "map.fits"});
  BOOST_TEST(mistyped.code == 64);
  BOOST_TEST(contains(mistyped.err, "did you mean enhance?"), mistyped.err);
  BOOST_TEST(front({}).code == 64);
  for (const char* program : {"cirrus", "cirrus-data"})
    BOOST_TEST(std::system(("ldd '" + program_path(program).string() + "' | grep -q torch").c_str()) != 0,
               program << " loads LibTorch before it knows what for");
}

BOOST_FIXTURE_TEST_CASE(a_missing_program_proper_is_named, Installation) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"enhance", "map.fits"}, {"help", "enhance"}, {"completion", "bash"}}) {
    const Outcome outcome = front(words);
    BOOST_TEST(outcome.code == 70);
    BOOST_TEST(contains(outcome.err, (scratch / "cirrus/libexec/cirrus-core").string()), outcome.err);
    BOOST_TEST(contains(outcome.err, "No such file"), outcome.err);
  }
}

BOOST_FIXTURE_TEST_CASE(words_input_environment_and_exit_code_pass_through, Installation) {
  install_core("for word; do echo \"[$word]\"; done; cat; echo \"$OMP_WAIT_POLICY\"; echo complaint >&2; exit 75\n");
  const Outcome outcome = front({"enhance", "a b.fits", "", "--json", "-o", "x*"}, {.input = "typed\n"});
  BOOST_TEST(outcome.code == 75);
  BOOST_TEST(outcome.out == "[enhance]\n[a b.fits]\n[]\n[--json]\n[-o]\n[x*]\ntyped\npassive\n");
  BOOST_TEST(outcome.err == "complaint\n");
  BOOST_TEST(contains(front({"enhance"}, {.environment = {{"OMP_WAIT_POLICY", "active"}}}).out, "active\n"));
  BOOST_TEST(front({"help", "train"}).out == "[help]\n[train]\npassive\n");
  BOOST_TEST(front({"completion", "zsh"}).out == "[completion]\n[zsh]\npassive\n");
}

BOOST_FIXTURE_TEST_CASE(it_is_one_process_that_signals_reach, Installation) {
  install_core("trap 'echo stopped; exit 130' TERM\necho started\nwhile :; do sleep 0.05; done\n");
  const Outcome outcome = front({"enhance"}, {.signal_after_first_output = SIGTERM});
  BOOST_TEST(outcome.code == 130);
  BOOST_TEST(outcome.out == "started\nstopped\n");
}

BOOST_FIXTURE_TEST_CASE(links_lead_to_the_folder_of_the_program, Installation) {
  install_core("echo \"$1\"\n");
  fs::create_symlink(scratch / "cirrus/bin/cirrus", scratch / "link");
  fs::create_symlink("link", scratch / "cirrus-dust");
  BOOST_TEST(run((scratch / "cirrus-dust").string(), {"models"}).out == "models\n");
}

BOOST_AUTO_TEST_CASE(the_built_programs_are_complete) {
  for (const char* program : {"cirrus", "cirrus-data"}) {
    const Outcome script = run(program, {"completion", "bash"});
    BOOST_TEST(script.code == 0, script.err);
    BOOST_TEST(contains(script.out, "--threads"));
  }
  const Outcome help = run("cirrus", {"enhance", "--help"});
  BOOST_TEST(help.code == 0);
  BOOST_TEST(contains(help.out, "--factor"));
  BOOST_TEST(run("cirrus", {"help", "enhance"}).out == help.out);
}

BOOST_AUTO_TEST_SUITE_END()
