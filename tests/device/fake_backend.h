// A device that is none, for tests of everything above the devices: tensors live on the CPU, work is "deferred" until
// end_step(), and two of them are there.
#pragma once

#include <chrono>

#include "base/errors.h"
#include "device/device.h"

namespace cirrus::test {

class FakeEvent : public device::Event {
public:
  double seconds_until(const device::Event& later) const override {
    return std::chrono::duration<double>(dynamic_cast<const FakeEvent&>(later).time_ - time_).count();
  }

private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

class FakeDevice : public device::Device {
public:
  FakeDevice(std::string name, std::vector<at::ScalarType> dtypes)
      : name_(std::move(name)), dtypes_(std::move(dtypes)) {}
  at::Device torch_device() const override { return at::kCPU; }
  std::string name() const override { return name_; }
  device::Capabilities capabilities() const override { return {dtypes_, false, true, ""}; }
  device::MemoryStatistics memory() const override { return {1ull << 36, 1ull << 35, 1ull << 30}; }
  void seed(std::uint64_t) override {}
  void synchronize() override { end_step(); }
  void end_step() override { ++steps_; }
  std::unique_ptr<device::Event> record_event() override { return std::make_unique<FakeEvent>(); }
  int steps() const { return steps_; }

private:
  std::string name_;
  std::vector<at::ScalarType> dtypes_;
  int steps_ = 0;
};

class FakeBackend : public device::Backend {
public:
  explicit FakeBackend(std::string kind, int score = 5, int count = 2,
                       std::vector<at::ScalarType> dtypes = {at::kBFloat16, at::kFloat})
      : kind_(std::move(kind)), score_(score), count_(count), dtypes_(std::move(dtypes)) {}
  std::string kind() const override { return kind_; }
  int score() const override { return score_; }
  int count() const override { return count_; }
  std::string why_not() const override { return count_ > 0 ? "" : "no card answers; reseat it"; }
  std::unique_ptr<device::Device> open(int index) const override {
    return std::make_unique<FakeDevice>(kind_ + " number " + std::to_string(index), dtypes_);
  }

private:
  std::string kind_;
  int score_, count_;
  std::vector<at::ScalarType> dtypes_;
};

}  // namespace cirrus::test
