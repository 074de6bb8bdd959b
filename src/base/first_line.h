// What an exception that is none of ours says, as one line for a message.
#pragma once

#include <exception>
#include <string>

namespace cirrus {

/// The first line: LibTorch's exceptions go on with a backtrace.
inline std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

/// Cuts off the place in its source that LibTorch's CPU allocator begins with; false for a line of anybody else.
inline bool cut_allocators_place(std::string& line) {
  const std::string name = "DefaultCPUAllocator: ";
  const std::size_t at = line.find(name);
  if (at != std::string::npos) line.erase(0, at + name.size());
  return at != std::string::npos;
}

}  // namespace cirrus
