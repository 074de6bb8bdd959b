// `cirrus train` as users run it: killed, stopped and out of time, and resumed each time.
#include <boost/test/unit_test.hpp>

#include "tests/cli/subprocess.h"
#include "tests/train/tiny_run.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;

struct Folder : ScratchFolder {
  Folder() { put(*this / "tiny.toml", kTinyRun); }
  std::vector<std::string> words(const std::string& out, std::int64_t steps, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"train",
                                 "--config",
                                 (*this / "tiny.toml").string(),
                                 "--out",
                                 (*this / out).string(),
                                 "--set",
                                 "train.steps=" + std::to_string(steps),
                                 "--threads",
                                 "1",
                                 "--dtype",
                                 "fp32",
                                 "--device",
                                 "cpu"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

/// Steps of the whole checkpoints of a run.
std::vector<std::int64_t> checkpoints(const fs::path& out) {
  std::vector<std::int64_t> steps;
  std::error_code ignored;
  for (const auto& e : fs::directory_iterator(out / "checkpoints", ignored))
    if (fs::exists(e.path() / "manifest.json")) steps.push_back(std::stoll(e.path().filename().string().substr(5)));
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Starts a run that would take days, sends the signal once it has a checkpoint of step 5 or later, and returns how it
/// ended.
int signalled(const std::vector<std::string>& words, const fs::path& out, int signal) {
  const std::string path = program_path("cirrus").string();
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    const auto steps = checkpoints(out);
    if (!steps.empty() && steps.back() >= 5) {
      kill(child, signal);
      waitpid(child, &status, 0);
      break;
    }
    usleep(20000);
  }
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(program)

BOOST_AUTO_TEST_CASE(a_killed_run_resumed_equals_an_uninterrupted_one_byte_for_byte) {
  const Folder folder;
  BOOST_TEST_REQUIRE(signalled(folder.words("killed", 1000000000), folder / "killed", SIGKILL) == -SIGKILL);
  const std::int64_t steps = checkpoints(folder / "killed").back() + 7;
  const test::Outcome resumed = run("cirrus", folder.words("killed", steps, {"--resume"}));
  BOOST_TEST_REQUIRE(resumed.code == 0);
  BOOST_TEST(contains(resumed.err, "Resuming from step " + std::to_string(steps - 7)));
  BOOST_TEST_REQUIRE(run("cirrus", folder.words("whole", steps)).code == 0);
  BOOST_TEST((contents(folder / "killed" / "model.safetensors") == contents(folder / "whole" / "model.safetensors")));
  BOOST_TEST(checkpoints(folder / "killed").back() == steps);
}

BOOST_AUTO_TEST_CASE(sigterm_ends_with_75_and_a_checkpoint_to_resume_from) {
  const Folder folder;
  BOOST_TEST_REQUIRE(signalled(folder.words("stopped", 1000000000), folder / "stopped", SIGTERM) == 75);
  const std::int64_t stopped = checkpoints(folder / "stopped").back(), steps = stopped + 3;
  BOOST_TEST(fs::exists(folder / "stopped" / "model.safetensors"));
  BOOST_TEST(
      contains(run("cirrus", folder.words("stopped", steps)).err, "--resume"));  // it does not start over unasked
  const test::Outcome resumed = run("cirrus", folder.words("stopped", steps, {"--resume"}));
  BOOST_TEST(resumed.code == 0);
  BOOST_TEST(contains(resumed.err, "Resuming from step " + std::to_string(stopped)));
  BOOST_TEST(contains(resumed.out, "model.safetensors"));
}

BOOST_AUTO_TEST_CASE(the_time_limit_ends_with_75) {
  const Folder folder;
  const test::Outcome limited = run("cirrus", folder.words("limited", 1000000000, {"--time-limit", "0.001s"}));
  BOOST_TEST(limited.code == 75);
  BOOST_TEST(contains(limited.err, "Time limit reached"));
  BOOST_TEST_REQUIRE(checkpoints(folder / "limited").size() == 1u);
  BOOST_TEST(run("cirrus", folder.words("limited", 2, {"--resume", "--time-limit", "2h"})).code == 0);
  BOOST_TEST(run("cirrus", folder.words("limited", 2, {"--time-limit", "soon"})).code == 64);
}

BOOST_AUTO_TEST_CASE(a_dry_run_sizes_a_run_and_refuses_what_the_run_would) {
  const Folder folder;
  const std::string published = std::string(std::getenv("CIRRUS_SOURCE")) + "/configs/train/sr3-64-256.toml";
  const auto dry = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> words{"train",    "--config", published,  "--out", (folder / "dry").string(),
                                   "--device", "cpu",      "--dry-run"};
    for (const std::string& s : settings) words.insert(words.end(), {"--set", s});
    return run("cirrus", words);
  };
  const test::Outcome sized = dry({});
  BOOST_TEST(sized.code == 0, sized.err);
  BOOST_TEST(contains(sized.out, "542723457 parameters: 8.68 GB"), sized.out);
  BOOST_TEST(!fs::exists(folder / "dry"));
  const auto refused = [&](const std::string& setting, const std::string& part) {
    const test::Outcome o = dry({setting});
    BOOST_TEST(o.code == 78, setting << " ended with " << o.code);
    BOOST_TEST(contains(o.err, part), o.err);
  };
  refused("sr3.inner=15", "inner is 15");
  refused("sr3.multipliers=[]", "0 levels");
  refused("sr3.attention_level=7", "attention_level is 7, and the last level is 5");
  refused("task.patch=63", "patch = 63");
  refused("train.accumulation=8", "accumulation (8)");
  refused("network.widths=[8,16]", "network.widths is a setting of edm networks");
  refused("task.p_mean=0.1", "task.p_mean is a setting of edm networks");
  const test::Outcome other = run("cirrus", folder.words("run", 2, {"--set", "sr3.inner=8"}));
  BOOST_TEST(other.code == 78);
  BOOST_TEST(contains(other.err, "set network.kind = \"sr3\""), other.err);
}

BOOST_AUTO_TEST_CASE(a_step_that_exceeds_the_hosts_memory_names_parts_that_fit) {
  const Folder folder;
  const std::vector<std::string> words = folder.words("full", 1, {"--set", "train.batch=8192", "--overwrite"});
  const test::Outcome full = run("cirrus", words, {.address_space = 2'000'000'000});
  BOOST_TEST(full.code == 70, full.code << " " << full.err);
  BOOST_TEST(contains(full.err, "A step of 8192 samples does not fit into the memory of"), full.err);
  BOOST_TEST(contains(full.err, "(2.0 GB)"), full.err);
  BOOST_TEST(contains(full.err, "samples fit: --set train.accumulation="), full.err);
}

BOOST_AUTO_TEST_CASE(another_configuration_is_refused_with_78) {
  const Folder folder;
  BOOST_TEST_REQUIRE(run("cirrus", folder.words("run", 2)).code == 0);
  const auto everything = [&] {
    std::map<std::string, std::string> files;
    for (const auto& e : fs::recursive_directory_iterator(folder / "run"))
      if (e.is_regular_file()) files[e.path().string()] = contents(e.path());
    return files;
  };
  const auto before = everything();
  BOOST_TEST(contains(before.at((folder / "run/config.toml").string()), "steps = 2"));
  const test::Outcome changed =
      run("cirrus", folder.words("run", 4, {"--resume", "--set", "optimizer.learning_rate=0.02"}));
  BOOST_TEST(changed.code == 78);
  BOOST_TEST(contains(changed.err, "another configuration"));
  BOOST_TEST((everything() == before), "a refused resume changed the run's folder");
  // Neither does a run that cannot start cost the one it would replace.
  BOOST_TEST(run("cirrus", folder.words("run", 4, {"--overwrite", "--init", "absent.safetensors"})).code == 66);
  BOOST_TEST((everything() == before));
}

BOOST_AUTO_TEST_SUITE_END()
