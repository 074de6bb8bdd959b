// A fake libhlml.so: the vendor's management library for one card of CIRRUS_FAKE_HPU_GENERATION. Memory in use is what
// the fake plug-in counts. Signatures as the Python binding pyhlml calls them.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2;
int card = 0;

int generation() {
  const char* text = std::getenv("CIRRUS_FAKE_HPU_GENERATION");
  return text == nullptr ? 2 : std::atoi(text);
}

struct Memory {
  unsigned long long free, total, used;
};

}  // namespace

extern "C" {

int hlml_init() { return kSuccess; }
int hlml_shutdown() { return kSuccess; }
int hlml_device_get_count(unsigned* count) {
  *count = 1;
  return kSuccess;
}
int hlml_device_get_handle_by_index(unsigned index, void** device) {
  if (index != 0) return kInvalidArgument;
  *device = &card;
  return kSuccess;
}
int hlml_device_get_module_id(void*, unsigned* module) {
  const char* text = std::getenv("HLS_MODULE_ID");
  *module = text == nullptr ? 0 : static_cast<unsigned>(std::atoi(text));
  return kSuccess;
}
int hlml_device_get_name(void*, char* name, unsigned length) {
  const char* names[] = {"HL-205", "HL-225", "HL-325L"};
  std::snprintf(name, length, "%s", names[generation() == 1 ? 0 : generation() == 3 ? 2 : 1]);
  return kSuccess;
}
int hlml_device_get_memory_info(void*, Memory* memory) {
  const char* limit = std::getenv("CIRRUS_FAKE_HPU_MEMORY");
  memory->total = limit != nullptr ? std::strtoull(limit, nullptr, 10)
                                   : (generation() == 1   ? 32ull
                                      : generation() == 3 ? 128ull
                                                          : 96ull)
                                         << 30;
  const auto count =
      reinterpret_cast<std::int64_t (*)(const char*)>(dlsym(RTLD_DEFAULT, "fake_hpu_count"));  // of the plug-in
  memory->used = count == nullptr ? 0 : static_cast<unsigned long long>(count("bytes"));
  memory->free = memory->total - memory->used;
  return kSuccess;
}
int hlml_device_get_power_usage(void*, unsigned* milliwatts) {
  *milliwatts = generation() == 1 ? 300000 : generation() == 3 ? 900000 : 600000;
  return kSuccess;
}
}
