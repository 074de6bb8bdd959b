// A full memory: how it is known, and its wording.
#include "device/memory_error.h"

#include <cstdio>
#include <new>
#include <system_error>

#include "base/first_line.h"

namespace cirrus::device {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (const auto* system = dynamic_cast<const std::system_error*>(&error))  // a thread whose stack found no room
    return system->code() == std::errc::resource_unavailable_try_again ||
           system->code() == std::errc::not_enough_memory;
  const std::string text = first_line(error);
  // oneDNN's exception for code, workspaces or threads that found no room; for what it has no algorithm it says "could
  // not create a primitive descriptor".
  if (text == "could not create a primitive") return true;
  if (dynamic_cast<const c10::Error*>(&error) == nullptr) return false;
  for (const char* words : {"out of memory", "Allocation failed for size", "DefaultCPUAllocator: can't allocate memory",
                            "DefaultCPUAllocator: not enough memory"})
    if (text.find(words) != std::string::npos) return true;
  return false;
}

Error out_of_memory(const std::exception& error, const Device& device, const std::string& what,
                    const std::string& remedy) {
  const double bytes = static_cast<double>(device.memory().total);
  char size[32];
  std::snprintf(size, sizeof size, bytes < 1e9 ? "%.0f MB" : "%.1f GB", bytes * (bytes < 1e9 ? 1e-6 : 1e-9));
  std::string cause = first_line(error);
  cut_allocators_place(cause);
  return {ExitCode::internal, what + " does not fit into the memory of " + device.name() + " (" + size + "): " + cause,
          remedy};
}

}  // namespace cirrus::device
