// The outside of a program: dispatch, exit codes and messages for every kind of exception, completion.
#include "base/program.h"

#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/log.h"
#include "base/run_options.h"
#include "base/version.h"
#include "tests/base/scratch_folder.h"

using namespace cirrus;
using namespace cirrus::test;

namespace {

struct Fixture {
  ~Fixture() { log::configure({}), log::set_speaking(true); }

  /// Verb "enhance" parses its options and then does `action`.
  Program program_doing(std::function<int()> action) {
    const auto enhance = [action](const Arguments& arguments) {
      RunOptions run;
      std::string sampler = "heun";
      Options options("cirrus enhance", "Sharpen a map: it's better.");
      options.group("Super-resolution");
      options.add("sampler", sampler, "how [to]: sample").one_of({"heun", "euler"});
      add_run_options(options, run);
      if (!options.parse(arguments)) return 0;
      return action();
    };
    return {"cirrus",
            "sharpens dust maps",
            {{"enhance", "sharpen a map", enhance}, {"train", "train a model", enhance}},
            "@a{b}"};
  }

  int run(
      const std::vector<const char*>& words, const std::function<int()>& action = [] { return 0; }) {
    std::vector<const char*> argv = {"cirrus"};
    argv.insert(argv.end(), words.begin(), words.end());
    int code = -1;
    err = printed(2, [&] {
      out = printed(1, [&] { code = run_program(program_doing(action), static_cast<int>(argv.size()), argv.data()); });
    });
    return code;
  }

  std::string out, err;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(programs)

BOOST_FIXTURE_TEST_CASE(what_every_program_answers, Fixture) {
  BOOST_TEST(run({"--version"}) == 0);
  BOOST_TEST(out == std::string("cirrus ") + kVersion + "\n");
  BOOST_TEST(run({"enhance", "--version"}) == 0);
  BOOST_TEST(run({"--help"}) == 0);
  BOOST_TEST(out.find("  enhance     sharpen a map\n") != std::string::npos);
  BOOST_TEST(run({"help"}) == 0);
  BOOST_TEST(run({"help", "enhance"}) == 0);
  BOOST_TEST(out.starts_with("cirrus enhance: Sharpen a map: it's better.\n"));
  BOOST_TEST(run({"enhance", "--cite"}) == 0);
  BOOST_TEST(out.starts_with("@software{cirrus,"));
  BOOST_TEST(out.ends_with("@a{b}\n"));
  BOOST_TEST(err.empty());
}

BOOST_FIXTURE_TEST_CASE(unknown_verbs_name_the_nearest, Fixture) {
  BOOST_TEST(run({"enhence"}) == 64);
  BOOST_TEST(err == "cirrus: error: unknown verb enhence (did you mean enhance? cirrus --help lists all)\n");
  BOOST_TEST(out.empty());
  BOOST_TEST(run({"--verison"}) == 64);
  BOOST_TEST(err.find("did you mean --version?") != std::string::npos);
  BOOST_TEST(run({"help", "trian"}) == 64);
  BOOST_TEST(err.find("did you mean train?") != std::string::npos);
  BOOST_TEST(run({}) == 64);
}

BOOST_FIXTURE_TEST_CASE(exceptions_become_codes_and_messages, Fixture) {
  BOOST_TEST(run({"enhance"}, [] { return 1; }) == 1);
  BOOST_TEST(run({"enhance"},
                 []() -> int { throw Error(ExitCode::bad_data, "a.fits: all pixels are NaN", "give a map"); }) == 65);
  BOOST_TEST(err == "cirrus enhance: error: a.fits: all pixels are NaN (give a map)\n");
  BOOST_TEST(run({"enhance"}, []() -> int { throw std::bad_alloc(); }) == 70);
  BOOST_TEST(err.starts_with("cirrus enhance: error: out of memory: std::bad_alloc (free memory"));
  BOOST_TEST(run({"enhance"}, []() -> int {
               throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
             }) == 70);
  BOOST_TEST(err.starts_with("cirrus enhance: error: out of memory: a thread could not be started (free memory"));
  BOOST_TEST(run({"enhance"}, []() -> int { throw std::runtime_error("sizes differ\nframe #0: ..."); }) == 70);
  BOOST_TEST(err == "cirrus enhance: error: sizes differ\n");
  BOOST_TEST(run({"enhance"}, []() -> int { throw 3; }) == 70);
  BOOST_TEST(run({"enhance", "--sampler", "x"}) == 64);
}

BOOST_FIXTURE_TEST_CASE(with_json_errors_are_an_object_on_stdout, Fixture) {
  const auto fails = []() -> int { throw Error(ExitCode::io, "disk \"full\" \xff"); };
  BOOST_TEST(run({"enhance", "--json"}, fails) == 74);
  const auto object = nlohmann::json::parse(out);
  BOOST_TEST(object["error"]["code"] == 74);
  BOOST_TEST(object["error"]["message"].get<std::string>().starts_with("disk \"full\""));
  BOOST_TEST(!err.empty());
  BOOST_TEST(run({"enhance", "--json", "--bogus"}) == 64);
  BOOST_TEST(nlohmann::json::parse(out)["error"]["code"] == 64);
  const Environment by_variable("CIRRUS_JSON", "true");
  BOOST_TEST(run({"enhance"}, fails) == 74);
  BOOST_TEST(nlohmann::json::parse(out)["error"]["code"] == 74);
}

BOOST_FIXTURE_TEST_CASE(strict_ends_with_65_at_the_first_warning, Fixture) {
  const auto warns = [] { return log::warning("no BUNIT"), 0; };
  BOOST_TEST(run({"enhance"}, warns) == 0);
  BOOST_TEST(err == "cirrus enhance: warning: no BUNIT\n");
  BOOST_TEST(run({"enhance", "--strict"}, warns) == 65);
}

BOOST_FIXTURE_TEST_CASE(one_rank_speaks, Fixture) {
  const Environment rank("PMI_RANK", "1");
  BOOST_TEST(run({"--help"}) == 0);
  BOOST_TEST(out.empty());
  BOOST_TEST(run({"enhance", "--bogus"}) == 64);
  BOOST_TEST(err.empty());
  BOOST_TEST(run({"enhance"}, []() -> int { throw Error(ExitCode::io, "disk full"); }) == 74);
  BOOST_TEST(err == "cirrus enhance: error: disk full\n");
}

BOOST_FIXTURE_TEST_CASE(completion_is_made_from_the_registry, Fixture) {
  BOOST_TEST(run({"completion", "zsh"}) == 0);
  BOOST_TEST(out.starts_with("#compdef cirrus\n"));
  BOOST_TEST(out.find("'--sampler[how  to   sample]:value:(heun euler)'") != std::string::npos);
  BOOST_TEST(run({"completion", "fish"}) == 0);
  BOOST_TEST(
      out.find("complete -c cirrus -n '__fish_seen_subcommand_from enhance' -l sampler -d 'how [to]: sample' -x -a "
               "'heun euler'\n") != std::string::npos);
  BOOST_TEST(run({"completion", "bsh"}) == 64);
  BOOST_TEST(err.find("did you mean bash?") != std::string::npos);
  BOOST_TEST(run({"completion"}) == 64);
}

BOOST_FIXTURE_TEST_CASE(bash_completes_verbs_flags_and_choices, Fixture) {
  const ScratchFolder folder;
  BOOST_TEST(run({"completion", "bash"}) == 0);
  put(folder / "completion.bash", out);
  const auto completed = [&](const std::string& words, int index) {
    put(folder / "ask.bash", "source " + (folder / "completion.bash").string() + "\nCOMP_WORDS=(" + words +
                                 ")\nCOMP_CWORD=" + std::to_string(index) + "\n_cirrus\necho \"${COMPREPLY[*]}\"\n");
    const std::string command = "bash " + (folder / "ask.bash").string() + " > " + (folder / "answer").string();
    BOOST_TEST(std::system(command.c_str()) == 0);
    return contents(folder / "answer");
  };
  BOOST_TEST(completed("cirrus enh", 1) == "enhance\n");
  BOOST_TEST(completed("cirrus enhance --samp", 2) == "--sampler\n");
  BOOST_TEST(completed("cirrus enhance --sampler h", 3) == "heun\n");
  BOOST_TEST(completed("cirrus completion f", 2) == "fish\n");
}

BOOST_AUTO_TEST_SUITE_END()
