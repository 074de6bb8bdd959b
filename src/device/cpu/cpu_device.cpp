// The CPU as a Device: model name and features from the kernel, memory from /proc, time from the steady clock.
#include "device/cpu/cpu_device.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <sys/resource.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

#include "base/errors.h"
#include "device/cpu/memory_limit.h"

namespace cirrus::device {
namespace {

/// The value of the first line of `path` that begins with `key`, or "".
std::string field(const char* path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, key.size(), key) == 0) {
      const auto from = line.find_first_not_of(" \t:", key.size());
      return from == std::string::npos ? "" : line.substr(from);
    }
  return "";
}

class CpuEvent : public Event {
public:
  double seconds_until(const Event& later) const override {
    return std::chrono::duration<double>(dynamic_cast<const CpuEvent&>(later).time_ - time_).count();
  }

private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

class CpuDevice : public Device {
public:
  at::Device torch_device() const override { return at::kCPU; }
  std::string name() const override {
    const std::string model = field("/proc/cpuinfo", "model name");
    return model.empty() ? "CPU" : model;
  }
  Capabilities capabilities() const override {
    // oneDNN emulates bf16 on processors without it, slower than fp32: offered first only where it is native.
    const std::string flags = " " + field("/proc/cpuinfo", "flags") + " ";
    const bool bf16 = flags.find(" avx512_bf16 ") != std::string::npos || flags.find(" amx_bf16 ") != std::string::npos;
    Capabilities c;
    c.dtypes = bf16 ? std::vector<at::ScalarType>{at::kBFloat16, at::kFloat} : std::vector<at::ScalarType>{at::kFloat};
    c.collective_backend = "mpi";
    return c;
  }
  MemoryStatistics memory() const override {
    const auto kib = [](const char* key) -> std::uint64_t {
      std::istringstream in(field("/proc/meminfo", key));
      std::uint64_t v = 0;
      in >> v;
      return v * 1024;
    };
    MemoryStatistics m{kib("MemTotal:"), kib("MemAvailable:"), 0};
    const auto limit = [&m](std::uint64_t most, std::uint64_t used) {
      m.total = std::min(m.total, most);
      m.available = std::min(m.available, most - std::min(most, used));
    };
    // A control group's limit (a Pod's, a batch job's): "max" where there is none.
    std::uint64_t most = 0, used = 0;
    if (std::ifstream("/sys/fs/cgroup/memory.max") >> most && std::ifstream("/sys/fs/cgroup/memory.current") >> used)
      limit(most, used);
    rlimit space{};  // ulimit -v
    std::uint64_t pages = 0;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
        std::ifstream("/proc/self/statm") >> pages)
      limit(space.rlim_cur, pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
    m.available = std::min(m.available, tensor_memory_left());
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    m.peak_used = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
    return m;
  }
  void seed(std::uint64_t) override {}  // nothing here draws from a stateful generator: noise is addressed
  void synchronize() override {}
  void end_step() override {}
  bool adamw(const AdamWUpdate& u) override {
    at::_fused_adamw_(u.weights, u.gradients, u.first, u.second, {}, u.steps, u.rate, u.beta1, u.beta2, u.weight_decay,
                      u.epsilon, false, false, {}, u.overflow);
    return true;
  }
  std::unique_ptr<Event> record_event() override { return std::make_unique<CpuEvent>(); }
  std::vector<std::pair<std::string, std::string>> versions() const override {
    return {{"LibTorch", TORCH_VERSION}, {"instructions", at::get_cpu_capability()}};
  }
};

class CpuBackend : public Backend {
public:
  std::string kind() const override { return "cpu"; }
  int score() const override { return 0; }
  int count() const override { return 1; }
  std::string why_not() const override { return ""; }
  std::unique_ptr<Device> open(int index) const override {
    if (index != 0)
      throw Error(ExitCode::unavailable, "There is one cpu device, not cpu:" + std::to_string(index),
                  "use --device cpu --threads N");
    auto cpu = std::make_unique<CpuDevice>();
    // The rest is for what is no tensor: oneDNN's code, stacks, libraries, which end the program where they find no
    // room.
    const std::uint64_t available = cpu->memory().available;
    limit_tensor_memory(available - std::max(available / 10, std::min<std::uint64_t>(available / 2, 256'000'000)));
    return cpu;
  }
};

}  // namespace

Backend* cpu_backend() {
  static CpuBackend backend;
  return &backend;
}

}  // namespace cirrus::device
