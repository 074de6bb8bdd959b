// The fake card as LibTorch sees it: memory with a limit, one stream, events whose record flushes, hooks. Tensors'
// bytes lie in host memory. As in the vendor's plug-in there is one device a process, acquired by the first allocation.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <cstdlib>

#include "tests/device/fake_hpu/recorder.h"

namespace fake_hpu {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;

const Device kCard(DeviceType::HPU, 0);
const c10::Stream kStream(c10::Stream::DEFAULT, kCard);
std::atomic<std::int64_t> bytes_in_use = 0;

struct Block {
  void* data;
  std::int64_t bytes;
};

void release(void* context) {
  const auto* block = static_cast<Block*>(context);
  Recorder::get().add("bytes", -block->bytes);
  bytes_in_use -= block->bytes;
  std::free(block->data);
  delete block;
}

class Memory : public c10::Allocator {
public:
  c10::DataPtr allocate(std::size_t size) override {
    TORCH_CHECK(!has_fault("in_use"), "synStatus=26 [Generic failure] Device acquire failed.");
    TORCH_CHECK(!has_fault("no_card"), "synStatus=8 [Device not found] Device acquire failed.");
    if (size == 0) return {nullptr, kCard};
    const std::int64_t bytes = static_cast<std::int64_t>((size + 127) / 128 * 128);
    // As the vendor's allocator, whose errors are not of LibTorch's type for this.
    TORCH_CHECK(bytes_in_use + bytes <= memory_limit(), "Allocation failed for size::", size, " (",
                static_cast<double>(size) / (1 << 20), ")MB: ", bytes_in_use.load(), " of ", memory_limit(),
                " bytes are in use");
    void* data = std::aligned_alloc(128, static_cast<std::size_t>(bytes));
    TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr, "the host has no ", size, " bytes for the fake card");
    bytes_in_use += bytes;
    Recorder::get().add("bytes", bytes);
    Recorder::get().maximum("peak_bytes", bytes_in_use);
    return {data, new Block{data, bytes}, release, kCard};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }
};

Memory memory;
REGISTER_ALLOCATOR(DeviceType::HPU, &memory)

class Guard final : public c10::impl::DeviceGuardImplInterface {
public:
  static constexpr DeviceType static_type = DeviceType::HPU;
  Guard() = default;
  explicit Guard(DeviceType) {}
  DeviceType type() const override { return DeviceType::HPU; }
  Device exchangeDevice(Device d) const override {
    setDevice(d);
    return kCard;
  }
  Device getDevice() const override { return kCard; }
  void setDevice(Device d) const override {
    TORCH_CHECK(d.type() == DeviceType::HPU && d.index() <= 0, "hpu:", static_cast<int>(d.index()),
                ": this process has one device, hpu:0");
  }
  void uncheckedSetDevice(Device) const noexcept override {}
  c10::Stream getStream(Device) const noexcept override { return kStream; }
  c10::Stream getDefaultStream(Device) const override { return kStream; }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return kStream; }
  DeviceIndex deviceCount() const noexcept override { return 1; }

  void record(void** event, const c10::Stream&, const DeviceIndex, const c10::EventFlag) const override {
    if (!has_fault("no_flush")) Recorder::get().end_graph(GraphEnd::flush);
    if (*event == nullptr) *event = new int(0);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override { delete static_cast<int*>(event); }
  void synchronizeEvent(void*) const override { Recorder::get().add("synchronizations"); }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { synchronizeDevice(0); }
  void synchronizeDevice(const DeviceIndex) const override {
    Recorder::get().end_graph(GraphEnd::flush);
    Recorder::get().add("synchronizations");
  }
};

C10_REGISTER_GUARD_IMPL(HPU, Guard)

}  // namespace
}  // namespace fake_hpu

namespace at {

/// LibTorch looks the class up by this very name. Functions without `override` are not in the interface of every
/// LibTorch.
class HPUHooks : public HPUHooksInterface {
public:
  explicit HPUHooks(HPUHooksArgs) {}
  void init() const override {}
  bool hasHPU() const override { return true; }
  bool isBuilt() const { return true; }
  bool isAvailable() const { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const { return 1; }
  DeviceIndex getCurrentDevice() const { return 0; }
  Device getDeviceFromPtr(void*) const override { return Device(kHPU, 0); }
  Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(kCPU); }
  const Generator& getDefaultGenerator(DeviceIndex) const {
    static const Generator generator = at::detail::createCPUGenerator();
    return generator;
  }
};

REGISTER_HPU_HOOKS(HPUHooks);

}  // namespace at
