// Finding, checking and loading the vendor's PyTorch plug-in. Layout and checks are those of the package's own
// __init__.py (habana_frameworks.torch, releases 1.18 to 1.21).
#include "device/hpu/plugin.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <torch/version.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "base/errors.h"
#include "base/shared_library.h"
#include "device/hpu/environment.h"

extern char** environ;

namespace cirrus::device::hpu {
namespace {

namespace fs = std::filesystem;

constexpr int kPythonSeconds = 20;  // a cold interpreter on a network disk

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
  return line;
}

/// Whether the kernel's driver shows a card: as an accel device (Linux 6.2 and newer) or in the driver's own class.
bool has_card() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/class/accel", ignored))
    if (fs::read_symlink(entry.path() / "device" / "driver", ignored).filename() == "habanalabs") return true;
  return fs::exists("/sys/class/habanalabs/hl0", ignored);
}

/// The first line that `python -c` prints, or "" if it fails or takes longer than kPythonSeconds.
std::string ask_python(const std::string& python) {
  const char* program =
      "import importlib.util as u; s = u.find_spec('habana_frameworks'); "
      "print(list(s.submodule_search_locations)[0] if s else '')";
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  char* const words[] = {const_cast<char*>(python.c_str()), const_cast<char*>("-c"), const_cast<char*>(program),
                         nullptr};
  pid_t child = 0;
  const bool started = posix_spawnp(&child, python.c_str(), &actions, nullptr, words, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  bool late = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPythonSeconds);
  while (started) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd waiting{ends[0], POLLIN, 0};
    late = left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) == 0;
    char buffer[512];
    const ssize_t n = late ? 0 : read(ends[0], buffer, sizeof buffer);
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  if (started) {
    if (late) kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (late || status != 0) return "";
  }
  return text.substr(0, text.find('\n'));
}

/// Which of the package's libraries Python's import would load.
std::string library_name() {
  if (lazy_mode()) return "libhabana_pytorch_plugin.so";
  const bool gaudis_own = torch_version().find("+git") != std::string::npos;
  return gaudis_own ? "libhabana_pytorch2_plugin.so" : "libhabana_pytorch2_plugin.upstream.so";
}

std::string major_minor(const std::string& version) {
  const auto dot = version.find('.');
  return dot == std::string::npos ? version : version.substr(0, version.find_first_not_of("0123456789", dot + 1));
}

/// The plug-in named by CIRRUS_HPU_PLUGIN or found by Python; sets problem.found if there is none.
std::optional<Plugin> locate(Problem& problem) {
  const std::string named = variable("CIRRUS_HPU_PLUGIN"), python = variable("CIRRUS_HPU_PYTHON");
  std::error_code ignored;
  if (!named.empty()) {
    if (fs::is_regular_file(named, ignored)) {
      const fs::path library = fs::absolute(named);
      return Plugin{library.parent_path().parent_path(), library, ""};
    }
    for (const char* below : {"", "torch", "habana_frameworks/torch"}) {
      const fs::path package = fs::absolute(fs::path(named) / below).lexically_normal();
      if (fs::exists(package / "required_version.txt", ignored))
        return Plugin{package, package / "lib" / library_name(), ""};
    }
    problem = {
        "CIRRUS_HPU_PLUGIN=" + named + " is neither a library nor the folder of habana_frameworks",
        "name libhabana_pytorch_plugin.so, or the folder habana_frameworks/torch that holds required_version.txt"};
    return std::nullopt;
  }
  if (python.empty() && !has_card()) {
    problem = {"the driver habanalabs shows no Gaudi card here (nothing in /sys/class/accel or /sys/class/habanalabs)",
               "run on a Gaudi node; in a container, request habana.ai/gaudi"};
    return std::nullopt;
  }
  const std::string interpreter = python.empty() ? "python3" : python, folder = ask_python(interpreter);
  if (folder.empty()) {
    problem = {interpreter + " knows no package habana_frameworks",
               "run in the Gaudi PyTorch image, or set CIRRUS_HPU_PLUGIN to the folder habana_frameworks/torch"};
    return std::nullopt;
  }
  const fs::path package = fs::path(folder) / "torch";
  // What the user names is taken at its word; what is merely installed has to fit.
  if (lazy_mode() && torch_version().find("+git") == std::string::npos) {
    problem = {
        "this program runs on torch " + torch_version() + ", and the Gaudi plug-in's lazy mode needs Gaudi's own build",
        "configure with -DTORCH_ROOT= the torch of the Gaudi image, or set PT_HPU_LAZY_MODE=0 (eager, slower)"};
    return std::nullopt;
  }
  return Plugin{package, package / "lib" / library_name(), ""};
}

}  // namespace

std::string torch_version() {
  static const std::string version = [] {
    Dl_info info{};
    // version.py lies beside lib/ in a wheel, build-version in a LibTorch archive.
    if (dladdr(reinterpret_cast<const void*>(&at::globalContext), &info) != 0 && info.dli_fname != nullptr) {
      const fs::path root = fs::path(info.dli_fname).parent_path().parent_path();
      std::ifstream in(root / "version.py");
      for (std::string line; std::getline(in, line);) {
        const auto from = line.find('\''), to = line.rfind('\'');
        if (line.rfind("__version__", 0) == 0 && to > from) return line.substr(from + 1, to - from - 1);
      }
      const std::string archive = first_line(root / "build-version");
      if (!archive.empty()) return archive;
    }
    return std::string(TORCH_VERSION);
  }();
  return version;
}

std::optional<Plugin> find_plugin(Problem& problem) {
  static Problem why;
  static const std::optional<Plugin> found = [] {
    std::optional<Plugin> plugin = locate(why);
    if (!plugin) return plugin;
    const std::string own = std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
    plugin->torch_version = first_line(plugin->package / "required_version.txt");
    std::error_code ignored;
    if (plugin->torch_version.find_first_of("0123456789") != 0) plugin->torch_version.clear();  // says nothing
    if (!plugin->torch_version.empty() && major_minor(plugin->torch_version) != own) {
      why = {"the Gaudi plug-in in " + plugin->package.string() + " was built for torch " + plugin->torch_version +
                 ", and this program uses torch " + torch_version(),
             "configure with -DTORCH_ROOT= a torch " + major_minor(plugin->torch_version)};
      plugin.reset();
    } else if (!fs::exists(plugin->library, ignored)) {
      why = {"the Gaudi package in " + plugin->package.string() + " has no lib/" + plugin->library.filename().string(),
             "reinstall habana-torch-plugin, or set PT_HPU_LAZY_MODE to the mode it has a library for"};
      plugin.reset();
    } else if (const std::string damage = damage_of_library(plugin->library); !damage.empty()) {
      why = {"the Gaudi plug-in " + plugin->library.string() + " does not load: " + damage,
             "reinstall habana-torch-plugin, or name another in CIRRUS_HPU_PLUGIN"};
      plugin.reset();
    }
    return plugin;
  }();
  problem = why;
  return found;
}

void load_plugin(const Plugin& plugin) {
  static bool loaded = false;
  if (!loaded) {
    prepare_environment();
    if (dlopen(plugin.library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const std::string reason = dlerror();
      if (reason.find("undefined symbol") != std::string::npos)
        throw Error(ExitCode::unavailable,
                    "The Gaudi plug-in was not built for torch " + torch_version() + " of this program: " + reason,
                    "configure with -DTORCH_ROOT= the torch of the Gaudi image");
      throw Error(ExitCode::unavailable, "The Gaudi plug-in does not load: " + reason,
                  "source /etc/profile.d/habanalabs.sh, or run in the Gaudi PyTorch image");
    }
    if (!c10::impl::hasDeviceGuardImpl(at::kHPU))
      throw Error(ExitCode::unavailable, plugin.library.string() + " loads, but registers no device 'hpu'",
                  "name the vendor's libhabana_pytorch_plugin.so in CIRRUS_HPU_PLUGIN");
    loaded = true;
  }
  try {
    at::empty({1}, at::TensorOptions(at::Device(at::kHPU, 0)));  // the plug-in acquires the card with its first tensor
  } catch (const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    if (text.find("Device not found") != std::string::npos)
      throw Error(ExitCode::unavailable, "The Gaudi plug-in finds no card: " + text,
                  "check hl-smi, HLS_MODULE_ID and HABANA_VISIBLE_MODULES");
    if (text.find("acquire failed") != std::string::npos)
      throw Error(ExitCode::unavailable, "The Gaudi card is in use by another process, or is not healthy: " + text,
                  "see hl-smi for who holds it, or choose another card by HLS_MODULE_ID, or use --device cpu");
    throw Error(ExitCode::unavailable, "The Gaudi card cannot be opened: " + text,
                "see hl-smi and the logs of HABANA_LOGS");
  }
}

}  // namespace cirrus::device::hpu
