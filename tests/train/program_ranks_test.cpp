// `cirrus train` in several ranks as users start it, and ranks that are killed while checkpoints are written.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "dist/checkpoint.h"
#include "tests/cli/subprocess.h"
#include "tests/train/tiny_run.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;

using Words = std::vector<std::string>;

struct Folder : ScratchFolder {
  Folder() { put(*this / "tiny.toml", kTinyRun); }
  test::Outcome train(int ranks, const std::string& out, Words more = {}) const {
    Words words{"train",
                "--config",
                (*this / "tiny.toml").string(),
                "--out",
                (*this / out).string(),
                "--threads",
                "1",
                "--dtype",
                "fp32",
                "--device",
                "cpu",
                "--set",
                "train.batch=5",
                "--set",
                "train.record_steps=1",
                "--set",
                "train.checkpoint_steps=0"};
    words.insert(words.end(), more.begin(), more.end());
    if (ranks == 1) return run("cirrus", words);
    words.insert(words.begin(), {"-n", std::to_string(ranks), program_path("cirrus").string()});
    return run(mpiexec(), words);
  }
  std::vector<double> losses(const std::string& out) const {
    std::vector<double> all;
    std::istringstream in(contents(*this / out / "train.jsonl"));
    for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line).at("loss"));
    return all;
  }
};

void require_close(const std::vector<double>& a, const std::vector<double>& b) {
  BOOST_TEST_REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) BOOST_TEST(a[i] == b[i], boost::test_tools::tolerance(1e-4));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(program_ranks)

BOOST_AUTO_TEST_CASE(several_ranks_train_what_one_trains_and_say_who_they_are) {
  const Folder folder;
  BOOST_TEST_REQUIRE(folder.train(1, "one", {"--set", "train.steps=8"}).code == 0);
  const test::Outcome two = folder.train(2, "two", {"--set", "train.steps=8"});  // 3 and 2 samples of 5
  BOOST_TEST_REQUIRE(two.code == 0, two.err);
  BOOST_TEST(contains(two.err, "2 ranks on 1 host"), two.err);
  BOOST_TEST(count(two.err, "Training on") == 1u, two.err);
  BOOST_TEST(count(two.out, "model.safetensors") == 1u);
  require_close(folder.losses("two"), folder.losses("one"));
  // On in one rank, and on in three with shards.
  BOOST_TEST_REQUIRE(folder.train(1, "one", {"--set", "train.steps=12", "--resume"}).code == 0);
  const test::Outcome three = folder.train(3, "two", {"--set", "train.steps=12", "--resume", "--parallel", "zero2"});
  BOOST_TEST_REQUIRE(three.code == 0, three.err);
  require_close(folder.losses("two"), folder.losses("one"));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said_once_with_its_code) {
  const Folder folder;
  fs::create_directories(folder / "old/checkpoints");
  const std::vector<std::tuple<Words, int, std::string>> mistakes{
      {{"--set", "train.steps=2"}, 73, "already holds a run"},
      {{"--overwrite", "--parallel", "none"}, 69, "runs in one process"},
      {{"--overwrite", "--set", "train.batch=1"}, 78, "smaller than ranks"},
      {{"--overwrite", "--parallel", "dpp"}, 64, "ddp"},
      {{"--overwrite", "--device", "cuda"}, 69, "cuda"},
  };
  for (const auto& [words, code, text] : mistakes) {
    const test::Outcome o = folder.train(2, "old", words);
    BOOST_TEST(o.code == code, o.err);
    BOOST_TEST(count(o.err, "error:") == 1u, o.err);
    BOOST_TEST(contains(o.err, text), o.err);
  }
}

BOOST_AUTO_TEST_CASE(auto_is_the_least_sharding_that_fits) {
  const auto sized = [](const std::string& inner) {  // nothing of that size is made
    return run(mpiexec(), {"-n", "2", program_path("cirrus").string(), "train", "--config",
                           std::string(std::getenv("CIRRUS_SOURCE")) + "/configs/train/sr3-64-256.toml", "--out",
                           "none", "--device", "cpu", "--dry-run", "--set", "sr3.inner=" + inner});
  };
  BOOST_TEST(contains(sized("32").out, "each of 2 ranks, with ddp"));
  const test::Outcome large = sized("4096");  // 5e11 parameters
  BOOST_TEST(contains(large.out, "each of 2 ranks, with fsdp, recompute"), large.out + large.err);
}

BOOST_AUTO_TEST_CASE(the_time_limit_stops_all_ranks_with_75) {
  const Folder folder;
  const test::Outcome o = folder.train(2, "run", {"--set", "train.steps=1000000", "--time-limit", "2s"});
  BOOST_TEST(o.code == 75, o.err);
  BOOST_TEST(contains(o.err, "Time limit reached"), o.err);
  BOOST_TEST(dist::find_checkpoint(folder / "run/checkpoints", dist::World{}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(slow_kills)

/// Three ranks save after every step; one of them is killed at a moment that nothing knows of, twenty times.
BOOST_AUTO_TEST_CASE(whichever_rank_is_killed_when_there_is_a_whole_checkpoint) {
  const ScratchFolder folder;
  std::mt19937 random(20);
  std::int64_t reached = 0;
  for (int kill_number = 0; kill_number < 20; ++kill_number) {
    for (int r = 0; r < 3; ++r) fs::remove(folder / ("pid-" + std::to_string(r)));
    const std::string strategy = kill_number % 2 == 0 ? "fsdp" : "ddp";
    const pid_t child = fork();
    if (child == 0) {
      setenv("UCX_HANDLE_ERRORS", "none", 1);
      const int nowhere = open("/dev/null", O_WRONLY);
      dup2(nowhere, STDOUT_FILENO);
      dup2(nowhere, STDERR_FILENO);
      const std::string launcher = mpiexec(), program = program_path("parallel_probe").string(),
                        out = folder.path().string(), how = "strategy=" + strategy;
      execl(launcher.c_str(), launcher.c_str(), "-n", "3", program.c_str(), out.c_str(), "blocks", "blocks=4",
            "width=64", "steps=1000000", "every=1", "resume=1", how.c_str(), nullptr);
      _exit(127);
    }
    // Once this run has saved something, at any moment.
    const auto newest = [&] {
      const auto folders = dist::step_folders(folder / "checkpoints");
      return folders.empty() ? 0 : folders[0].first;
    };
    while (newest() <= reached + 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 200'000));
    const pid_t victim = std::stoi(contents(folder / ("pid-" + std::to_string(random() % 3))));
    kill(victim, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    BOOST_TEST(status != 0);
    const auto found = dist::find_checkpoint(folder / "checkpoints", dist::World{});
    BOOST_TEST_REQUIRE(found.has_value(), "kill " << kill_number << " left no whole checkpoint");
    BOOST_TEST(found->checkpoint().step >= reached, "kill " << kill_number);
    reached = found->checkpoint().step;
  }
}

BOOST_AUTO_TEST_SUITE_END()
