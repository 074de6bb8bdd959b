// Running the built programs ($CIRRUS_BIN) as users do: words in, exit code, stdout and stderr out.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/base/scratch_folder.h"

namespace cirrus::test {

struct Outcome {
  int code = -1;  ///< exit code, or minus the signal that ended it
  std::string out, err;
};

struct RunSettings {
  std::filesystem::path folder{};                    ///< working folder
  std::map<std::string, std::string> environment{};  ///< added to the tests' own, from which CIRRUS_* keys are removed
  std::string input{};                               ///< stdin
  rlim_t file_size = RLIM_INFINITY;                  ///< largest file it may write: a full disk
  rlim_t address_space = RLIM_INFINITY;              ///< bytes it may map: a full memory
  int signal_after_first_output = 0;                 ///< sent once something appears on stdout
};

inline std::filesystem::path program_path(const std::string& program) {
  const char* folder = std::getenv("CIRRUS_BIN");
  BOOST_TEST_REQUIRE(folder != nullptr, "CIRRUS_BIN must name the folder of the built programs");
  return std::filesystem::path(folder) / program;
}

/// Runs and waits. stdout is a pipe read to its end, so a program that prints much does not stall.
inline Outcome run(const std::string& program, const std::vector<std::string>& words,
                   const RunSettings& settings = {}) {
  const ScratchFolder scratch;
  put(scratch / "in", settings.input);
  const std::string path = program_path(program).string();
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int pipe_ends[2];
  BOOST_TEST_REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    if (!settings.folder.empty() && chdir(settings.folder.c_str()) != 0) _exit(127);
    for (const char* key :
         {"CIRRUS_SEED", "CIRRUS_DEVICE", "CIRRUS_JSON", "CIRRUS_STRICT", "NO_COLOR", "SOURCE_DATE_EPOCH"})
      unsetenv(key);
    for (const int signal : {SIGINT, SIGHUP}) ::signal(signal, SIG_DFL);  // a test run in the background ignores them
    for (const auto& [name, value] : settings.environment) setenv(name.c_str(), value.c_str(), 1);
    dup2(open((scratch / "in").c_str(), O_RDONLY), STDIN_FILENO);
    dup2(pipe_ends[1], STDOUT_FILENO);
    dup2(open((scratch / "err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    if (settings.file_size != RLIM_INFINITY) {
      const rlimit limit{settings.file_size, settings.file_size};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (settings.address_space != RLIM_INFINITY) {
      const rlimit limit{settings.address_space, settings.address_space};
      setrlimit(RLIMIT_AS, &limit);
    }
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  Outcome outcome;
  char buffer[4096];
  for (ssize_t count; (count = read(pipe_ends[0], buffer, sizeof buffer)) > 0;) {
    if (outcome.out.empty() && settings.signal_after_first_output != 0) kill(child, settings.signal_after_first_output);
    outcome.out.append(buffer, static_cast<std::size_t>(count));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  outcome.err = contents(scratch / "err");
  BOOST_TEST_MESSAGE(outcome.err);
  return outcome;
}

/// The launcher of MPI programs, an absolute path; skips nothing: it comes with the MPI that Cirrus is built with.
inline std::string mpiexec() {
  for (const char* path : {"/usr/bin/mpiexec.mpich", "/usr/bin/mpiexec.hydra", "/usr/bin/mpiexec"})
    if (std::filesystem::exists(path)) return path;
  return "/usr/bin/mpiexec";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A file of the test data ($CIRRUS_TEST_DATA), or "" (and a printed sentence) where they are not.
inline std::string test_data(const std::string& name) {
  const char* folder = std::getenv("CIRRUS_TEST_DATA");
  if (folder == nullptr) {
    BOOST_TEST_MESSAGE("skipped: CIRRUS_TEST_DATA does not name the folder of the test maps");
    return "";
  }
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace cirrus::test
