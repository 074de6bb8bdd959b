// A device on which steps are recorded: what is recorded runs when it is replayed, and not before, as on a GPU. Tensors
// live on the CPU.
#pragma once

#include "device/device.h"

namespace cirrus::test {

class RecordingDevice : public device::Device {
public:
  explicit RecordingDevice(bool can = true) : can_(can) {}
  at::Device torch_device() const override { return at::kCPU; }
  std::string name() const override { return "recorder"; }
  device::Capabilities capabilities() const override { return {{at::kFloat}, true, false}; }
  device::MemoryStatistics memory() const override { return device::cpu().memory(); }
  void seed(std::uint64_t) override {}
  void synchronize() override {}
  void end_step() override {}
  bool adamw(const device::AdamWUpdate& update) override { return device::cpu().adamw(update); }
  std::unique_ptr<device::Event> record_event() override { return device::cpu().record_event(); }
  std::unique_ptr<device::Graph> capture(const std::function<void()>& work) override {
    ++captures;
    return can_ ? std::make_unique<Recording>(*this, work) : nullptr;
  }
  int captures = 0, replays = 0;

private:
  struct Recording : device::Graph {
    Recording(RecordingDevice& d, std::function<void()> w) : device(d), work(std::move(w)) {}
    void replay() override {
      ++device.replays;
      work();
    }
    RecordingDevice& device;
    std::function<void()> work;
  };
  bool can_;
};

}  // namespace cirrus::test
