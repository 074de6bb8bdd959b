// Finding the program proper and becoming it; see launch.h.
#include "base/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/errors.h"

namespace cirrus {
namespace {

namespace fs = std::filesystem;

/// Returns only if it cannot.
void become(const fs::path& core, char** argv) {
  setenv("OMP_WAIT_POLICY", "passive", 0);
  setenv("UCX_HANDLE_ERRORS", "none", 0);  // traces of MPI's transport would bury what is said; read when it is loaded
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0);  // LibTorch's sockets complain where hosts have no names
  setenv("UCX_DEBUG_SIGNO", "0", 0);          // MPI's UCX takes SIGHUP for a debugger, even where nohup has it ignored
  execv(core.c_str(), argv);
}

}  // namespace

int launch_program(Program program, int argc, char** argv) {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();  // links resolved
  const fs::path core = folder / "libexec" / (program.name + "-core");
  // At once, before run_program() catches signals: none can fall between.
  const bool is_verb = argc > 1 && std::any_of(program.verbs.begin(), program.verbs.end(),
                                               [&](const Verb& verb) { return verb.name == argv[1]; });
  if (is_verb) become(core, argv);
  for (Verb& verb : program.verbs)
    verb.run = [&](const Arguments&) -> int {
      become(core, argv);
      throw Error(ExitCode::internal, "cannot start " + core.string() + ": " + std::strerror(errno),
                  "the folders bin/ and libexec/ of Cirrus belong together: build or install it anew");
    };
  return run_program(program, argc, argv);
}

}  // namespace cirrus
