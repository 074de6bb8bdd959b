// A full memory: how it is known, and its wording.
#include "device/memory_error.h"

#include <cstdio>

namespace cirrus::device {

bool is_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  const std::string text = error.what_without_backtrace();
  return text.find("Allocation failed for size") != std::string::npos ||
         text.find("out of memory") != std::string::npos;
}

Error out_of_memory(const c10::Error& error, const Device& device, const std::string& what, const std::string& remedy) {
  char size[32];
  std::snprintf(size, sizeof size, "%.1f GB", static_cast<double>(device.memory().total) / 1e9);
  const std::string text = error.what_without_backtrace();
  return {ExitCode::internal,
          what + " does not fit into the memory of " + device.name() + " (" + size +
              "): " + text.substr(0, text.find('\n')),
          remedy};
}

}  // namespace cirrus::device
