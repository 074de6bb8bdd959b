// The bridge by dlopen.
#include "dist/hccl.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include "base/shared_library.h"
#include "device/module.h"

namespace cirrus::dist {

const CollectiveLibrary* load_hccl(std::string& reason) {
  const std::string file = "libcirrus_hccl.so";
  const std::filesystem::path path = device::find_module(file);
  if (path.empty()) {
    reason = "this build has no bridge to HCCL (" + file +
             " is built where Python's headers and a LibTorch with libtorch_python.so are found)";
    return nullptr;
  }
  if (const std::string damage = damage_of_library(path); !damage.empty()) {
    reason = path.string() + " does not load: " + damage + " (copy or install it again, or rebuild Cirrus)";
    return nullptr;
  }
  // Python's half of a LibTorch with CUDA loads that, too. LibTorch asks once which accelerators a process has, and
  // refuses two: the answer is given before there is a second one.
  at::hasCUDA();
  // Global, because Python's extension modules find the interpreter among the symbols of the process. Lazy, because a
  // LibTorch with a CUDA half needs functions of CUDA's libraries that nobody calls here.
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  if (handle == nullptr) {
    reason = path.string() + " does not load: " + dlerror();
    return nullptr;
  }
  const auto entry = reinterpret_cast<CollectiveEntry>(dlsym(handle, "cirrus_collectives"));
  const CollectiveLibrary* library = entry == nullptr ? nullptr : entry(kCollectivesAbi);
  if (library == nullptr) reason = path.string() + " belongs to another version of Cirrus: rebuild it";
  return library;
}

}  // namespace cirrus::dist
