// An allocator that counts.
#include "device/cpu/memory_limit.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>

namespace cirrus::device {
namespace {

// Bytes, as the C library rounds them. Below zero where what is freed was allocated before there was a limit: oneDNN's
// buffers are freed by the allocator of that moment.
std::atomic<std::int64_t> held{0};
std::atomic<std::uint64_t> most{std::numeric_limits<std::uint64_t>::max()};

std::uint64_t held_now() {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, held.load(std::memory_order_relaxed)));
}

void release(void* data) {
  if (data == nullptr) return;
  held.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(data)), std::memory_order_relaxed);
  c10::free_cpu(data);
}

class LimitedAllocator : public c10::Allocator {
public:
  explicit LimitedAllocator(std::uint64_t limit) : limit_(limit) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    const std::uint64_t before = held_now();
    TORCH_CHECK_WITH(OutOfMemoryError, bytes <= limit_ && before <= limit_ - bytes, "tensors hold ", before / 1'000'000,
                     " MB, and ", bytes / 1'000'000, " MB more exceed the ", limit_ / 1'000'000, " MB there are");
    void* data = c10::alloc_cpu(bytes);
    if (data != nullptr) held.fetch_add(static_cast<std::int64_t>(malloc_usable_size(data)), std::memory_order_relaxed);
    return {data, data, &release, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

private:
  const std::uint64_t limit_;
};

}  // namespace

void limit_tensor_memory(std::uint64_t bytes) {
  static std::once_flag once;
  std::call_once(once, [bytes] {
    static LimitedAllocator allocator(bytes);
    c10::SetCPUAllocator(&allocator);
    most = bytes;
  });
}

std::uint64_t tensor_memory_left() { return most - std::min(most.load(), held_now()); }

}  // namespace cirrus::device
