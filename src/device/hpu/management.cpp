// libhlml.so by dlopen: the C functions that the vendor's Python binding pyhlml calls.
#include "device/hpu/management.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "device/hpu/environment.h"

namespace cirrus::device::hpu {
namespace {

struct HlmlMemory {
  unsigned long long free, total, used;
};

/// Calls the library's function; false if it is missing or fails (0 is success).
template <class... Arguments>
bool call(void* library, const char* name, Arguments... arguments) {
  const auto function = library == nullptr ? nullptr : reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  return function != nullptr && function(arguments...) == 0;
}

}  // namespace

Management::Management() {
  for (const char* name : {"libhlml.so", "/usr/lib/habanalabs/libhlml.so"})
    if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  unsigned count = 0;
  if (!call(library_, "hlml_init") || !call(library_, "hlml_device_get_count", &count)) return;
  // With several cards in sight ours is the one HLS_MODULE_ID names; which one "any free card" was is not known.
  const std::string module = variable("HLS_MODULE_ID");
  for (unsigned i = 0; i < count; ++i) {
    void* card = nullptr;
    unsigned id = 0;
    if (!call(library_, "hlml_device_get_handle_by_index", i, &card)) continue;
    const bool ours = module.empty() || (call(library_, "hlml_device_get_module_id", card, &id) &&
                                         id == std::strtoul(module.c_str(), nullptr, 10));
    if (ours) {
      handle_ = card;
      return;
    }
  }
}

std::string Management::board() const {
  std::array<char, 96> name{};
  if (handle_ == nullptr || !call(library_, "hlml_device_get_name", handle_, name.data(), unsigned{name.size() - 1}))
    return "";
  return name.data();
}

CardMemory Management::memory() const {
  HlmlMemory m{};
  if (handle_ == nullptr || !call(library_, "hlml_device_get_memory_info", handle_, &m)) return {};
  return {m.total, m.total - m.used, m.used};
}

int generation_of(const std::string& board) {
  const auto begins = [&](const char* text) { return board.rfind(text, 0) == 0; };
  if (begins("HL-3") || begins("GAUDI3")) return 3;
  if (begins("HL-20") || board == "GAUDI") return 1;
  return begins("HL-2") || begins("GAUDI2") ? 2 : 0;
}

}  // namespace cirrus::device::hpu
