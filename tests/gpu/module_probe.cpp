// module_probe loads|opens MODULE: whether the CUDA module loads, has a kernel for each operator of the CPU and, where
// it was built with one, a library of collectives that fits LibTorch; and what the registry says of its device. Exit
// code 0: as it must be; 1: not; 77: libraries that the module needs are not on this machine.
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/errors.h"
#include "device/device.h"
#include "dist/collective_library.h"

namespace {

using namespace cirrus;

int loads(const std::string& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string error = dlerror();
    std::cout << error << "\n";
    const bool missing = error.find("cannot open shared object file") != std::string::npos;
    return missing && error.find("libcirrus_cuda.so: cannot open") == std::string::npos ? 77 : 1;
  }
  const auto entry = reinterpret_cast<device::ModuleEntry>(dlsym(handle, "cirrus_device_backend"));
  if (entry == nullptr || entry(device::kModuleAbi + 1) != nullptr || entry(device::kModuleAbi) == nullptr) {
    std::cout << "cirrus_device_backend is missing, or takes any version\n";
    return 1;
  }
  const device::Backend& backend = *entry(device::kModuleAbi);
  std::cout << backend.kind() << ": " << backend.count() << " card(s). " << backend.why_not() << "\n";
  int wrong = backend.kind() == "cuda" && (backend.count() > 0) == backend.why_not().empty() ? 0 : 1, operators = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.getNamespace() != "cirrus" || name.name.starts_with("cirrus::winograd")) continue;  // cuDNN has its own
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    ++operators;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) continue;
    std::cout << name.name << " has no CUDA kernel\n";
    wrong = 1;
  }
  std::cout << operators << " operators\n";
#ifdef CIRRUS_HAVE_COLLECTIVES
  const auto collectives = reinterpret_cast<dist::CollectiveEntry>(dlsym(handle, "cirrus_collectives"));
  if (collectives == nullptr || collectives(dist::kCollectivesAbi + 1) != nullptr ||
      collectives(dist::kCollectivesAbi) == nullptr) {
    std::cout << "cirrus_collectives is missing, or takes any version\n";
    return 1;
  }
  const dist::CollectiveLibrary& library = *collectives(dist::kCollectivesAbi);
  const std::string problem = library.prepare("");
  std::cout << library.name << ": " << (problem.empty() ? "ready" : problem) << "\n";
  if (!problem.empty()) wrong = 1;
#endif
  return operators > 20 ? wrong : 1;
}

int opens(const std::filesystem::path& file) {
  setenv("CIRRUS_MODULE_PATH", file.parent_path().c_str(), 1);
  int count = 0;
  std::string reason;
  for (const device::Backend* backend : device::backends())
    if (backend->kind() == "cuda") {
      count = backend->count();
      reason = backend->why_not();
    }
  try {
    const auto card = device::open_device("cuda");
    std::cout << card->name() << "\n";
    for (const auto& [what, version] : card->versions()) std::cout << what << ": " << version << "\n";
    return count > 0 ? 0 : 1;
  } catch (const Error& e) {  // no card, or one that is taken
    std::cout << e.what() << "\n";
    const bool told = count > 0 || std::string(e.what()).find(reason) != std::string::npos;
    return e.code() == ExitCode::unavailable && (count > 0 || !reason.empty()) && told ? 0 : 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what == "loads") return loads(argv[2]);
  if (what == "opens") return opens(argv[2]);
  std::cerr << "usage: module_probe loads|opens MODULE\n";
  return 64;
}
