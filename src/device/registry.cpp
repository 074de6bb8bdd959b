// The registry of backends: the CPU, what tests register, and modules loaded from disk on first need.
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/errors.h"
#include "base/log.h"
#include "base/shared_library.h"
#include "device/cpu/cpu_device.h"
#include "device/device.h"
#include "device/module.h"

namespace cirrus::device {
namespace {

namespace fs = std::filesystem;

/// Warnings of LibTorch go where ours go, and do not cross the progress line.
class LogWarnings : public c10::WarningHandler {
public:
  void process(const c10::Warning& warning) override { log::warning("LibTorch: " + warning.msg()); }
};

void log_warnings() {
  static LogWarnings handler;
  c10::WarningUtils::set_warning_handler(&handler);  // of this thread
}

/// Stands in for a module that is not installed or does not load, so that lists and errors can say why.
class MissingBackend : public Backend {
public:
  MissingBackend(std::string kind, std::string reason) : kind_(std::move(kind)), reason_(std::move(reason)) {}
  std::string kind() const override { return kind_; }
  int score() const override { return -1; }
  int count() const override { return 0; }
  std::string why_not() const override { return reason_; }
  std::unique_ptr<Device> open(int) const override {
    throw Error(ExitCode::unavailable, "No " + kind_ + " device: " + reason_);
  }

private:
  std::string kind_, reason_;
};

/// Where modules are looked for: CIRRUS_MODULE_PATH, then beside the program, then ../lib/cirrus of it.
std::vector<fs::path> module_folders() {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("CIRRUS_MODULE_PATH")) folders.emplace_back(path);
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  if (!program.empty()) {
    folders.push_back(program);
    folders.push_back(program / ".." / "lib" / "cirrus");
  }
  return folders;
}

/// Modules that were loaded, by kind.
std::map<std::string, void*>& loaded_modules() {
  static std::map<std::string, void*> handles;
  return handles;
}

/// A kind that comes as a module.
struct ModuleKind {
  const char *name, *hardware;
  const char* driver;     ///< library of the driver, without which loading the module would take a second for nothing
  const char* no_driver;  ///< said where it is missing
  const char* remedy;     ///< for a module that does not load
};
constexpr ModuleKind kModuleKinds[] = {
    {"cuda", "NVIDIA GPUs", "libcuda.so.1",
     "no NVIDIA driver is installed here: there is no libcuda.so.1 (a container needs its host's: --gpus all or --nv)",
     " (./bootstrap.sh --cuda installs LibTorch with all libraries of CUDA)"},
    {"hpu", "Intel Gaudi", nullptr, "", ""}};

bool is_installed(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

/// Loads libcirrus_<kind>.so; a stand-in with the reason when that fails. Modules stay loaded for the life of the
/// program.
Backend* load_module(const ModuleKind& module) {
  const std::string kind = module.name;
  static std::vector<std::unique_ptr<MissingBackend>> missing;
  const auto fail = [&](const std::string& reason) {
    return missing.emplace_back(std::make_unique<MissingBackend>(kind, reason)).get();
  };
  const std::string file = "libcirrus_" + kind + ".so";
  const fs::path path = find_module(file);
  if (path.empty())
    return fail(std::string("this build has no module for ") + module.hardware + " (" + file +
                " is neither beside the program nor in CIRRUS_MODULE_PATH)");
  if (module.driver != nullptr && !is_installed(module.driver)) return fail(module.no_driver);
  if (const std::string damage = damage_of_library(path); !damage.empty())
    return fail("module " + path.string() + " does not load: " + damage +
                " (copy or install it again, or rebuild Cirrus)");
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fail("module " + path.string() + " does not load: " + dlerror() + module.remedy);
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(handle, "cirrus_device_backend"));
  if (entry == nullptr) return fail(path.string() + " is not a Cirrus module: it has no cirrus_device_backend");
  Backend* backend = entry(kModuleAbi);
  if (backend == nullptr) return fail("module " + path.string() + " belongs to another version of Cirrus: rebuild it");
  loaded_modules()[kind] = handle;
  return backend;
}

struct Registry {
  std::mutex mutex;
  std::vector<Backend*> known{cpu_backend()};
  bool modules_loaded = false;
};
Registry& registry() {
  static Registry r;
  return r;
}

}  // namespace

fs::path find_module(const std::string& file) {
  for (const fs::path& folder : module_folders()) {
    std::error_code ignored;
    if (fs::exists(folder / file, ignored)) return folder / file;
  }
  return {};
}

void* module_symbol(const std::string& kind, const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  const auto found = loaded_modules().find(kind);
  return found == loaded_modules().end() ? nullptr : dlsym(found->second, name.c_str());
}

void register_backend(Backend* backend) {
  const std::lock_guard lock(registry().mutex);
  auto& known = registry().known;
  std::erase_if(known, [&](const Backend* b) { return b->kind() == backend->kind(); });
  known.push_back(backend);
}

std::vector<Backend*> backends() {
  log_warnings();
  const std::lock_guard lock(registry().mutex);
  Registry& r = registry();
  if (!r.modules_loaded) {
    r.modules_loaded = true;
    for (const ModuleKind& module : kModuleKinds) {
      const bool there =
          std::any_of(r.known.begin(), r.known.end(), [&](const Backend* b) { return b->kind() == module.name; });
      if (!there) r.known.push_back(load_module(module));
    }
  }
  return r.known;
}

Device& cpu() {
  static const std::unique_ptr<Device> device = cpu_backend()->open(0);
  return *device;
}

std::unique_ptr<Device> open_device(const std::string& name) {
  log_warnings();
  if (name == "cpu") return cpu_backend()->open(0);  // without touching any module
  const std::vector<Backend*> all = backends();
  if (name == "auto") {
    const auto available = [](const Backend* b) { return b->count() > 0 ? b->score() : -1; };
    return (*std::max_element(all.begin(), all.end(), [&](auto a, auto b) { return available(a) < available(b); }))
        ->open(0);
  }
  const auto colon = name.find(':');
  const std::string kind = name.substr(0, colon), number = colon == std::string::npos ? "0" : name.substr(colon + 1);
  const auto it = std::find_if(all.begin(), all.end(), [&](const Backend* b) { return b->kind() == kind; });
  if (it == all.end() || number.empty() || number.size() > 4 ||
      number.find_first_not_of("0123456789") != std::string::npos)
    throw Error(ExitCode::usage, "Unknown device '" + name + "'", "use auto, cpu, cuda, cuda:N or hpu");
  const int index = std::stoi(number), count = (*it)->count();
  if (count == 0)
    throw Error(ExitCode::unavailable, "Device '" + name + "' is not available: " + (*it)->why_not(),
                "run `cirrus devices` to see what can run here, or use --device cpu");
  if (index >= count)
    throw Error(
        ExitCode::unavailable,
        "Device '" + name + "' does not exist: this machine has " + std::to_string(count) + " " + kind + " device(s)",
        "use " + kind + ":0 to " + kind + ":" + std::to_string(count - 1));
  return (*it)->open(index);
}

std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "fp32";
    case at::kDouble:
      return "fp64";
    case at::kBFloat16:
      return "bf16";
    case at::kHalf:
      return "fp16";
    case at::kFloat8_e4m3fn:
      return "fp8";
    default:
      return c10::toString(type);
  }
}

at::ScalarType resolve_dtype(const std::string& name, const Device& device) {
  const Capabilities c = device.capabilities();
  const auto fast = [&](at::ScalarType type) {
    return std::find(c.dtypes.begin(), c.dtypes.end(), type) != c.dtypes.end();
  };
  if (name == "auto") return fast(at::kBFloat16) ? at::kBFloat16 : at::kFloat;
  if (name == "fp32") return at::kFloat;
  if (name == "bf16") return at::kBFloat16;  // right on every device, slow where it is emulated
  if (name != "fp16") throw Error(ExitCode::usage, "Unknown dtype '" + name + "'", "use auto, fp32, bf16 or fp16");
  if (!fast(at::kHalf))
    throw Error(ExitCode::unavailable, "fp16 does not run at useful speed on this device (" + device.name() + ")",
                "use --dtype bf16 or fp32");
  return at::kHalf;
}

}  // namespace cirrus::device
