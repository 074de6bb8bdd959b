// The card's name and memory from the vendor's management library libhlml.so, if it is installed.
#pragma once

#include <cstdint>
#include <string>

namespace cirrus::device::hpu {

struct CardMemory {
  std::uint64_t total = 0, available = 0, used = 0;  ///< bytes
};

class Management {
public:
  Management();  ///< loads the library; without it every answer is empty

  std::string board() const;  ///< "HL-225"
  CardMemory memory() const;  ///< of the whole card, other processes included

private:
  void* handle_ = nullptr;  ///< the library's handle of our card
  void* library_ = nullptr;
};

/// 1, 2 or 3 from a board's name: HL-205, HL-225, HL-325L and their kin; 0 if unknown.
int generation_of(const std::string& board);

}  // namespace cirrus::device::hpu
