// Tensors on the CPU take no more memory than there is: past it the system would kill the program without a word, and
// libraries below LibTorch crash where an allocation of theirs fails.
#pragma once

#include <cstdint>

namespace cirrus::device {

/// From here on, LibTorch's CPU tensors hold at most `bytes` together; one more throws c10::OutOfMemoryError. Once a
/// process: later calls do nothing. Thread-safe.
void limit_tensor_memory(std::uint64_t bytes);
/// What they may still take; without a limit, the largest number.
std::uint64_t tensor_memory_left();

}  // namespace cirrus::device
