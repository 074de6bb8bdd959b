// Intel Gaudi as a Device, over the vendor's PyTorch plug-in, and the module's entry point. One device a process: which
// card it is, the environment decides before the plug-in is loaded (HLS_MODULE_ID, HABANA_VISIBLE_MODULES).
#include <ATen/Context.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <fstream>

#include "base/errors.h"
#include "device/device.h"
#include "device/hpu/adamw.h"
#include "device/hpu/attention.h"
#include "device/hpu/environment.h"
#include "device/hpu/management.h"
#include "device/hpu/plugin.h"

namespace cirrus::device::hpu {
namespace {

/// The host's clock once all work before the event is done: the plug-in has no public device clock.
class HpuEvent : public Event {
public:
  double seconds_until(const Event& later) const override {
    return std::chrono::duration<double>(dynamic_cast<const HpuEvent&>(later).time_ - time_).count();
  }

private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

class HpuDevice : public Device {
public:
  explicit HpuDevice(Plugin plugin) : plugin_(std::move(plugin)) {
    load_plugin(plugin_);
    register_attention();
    management_.emplace();
    board_ = management_->board();
  }

  at::Device torch_device() const override { return at::Device(at::kHPU, 0); }
  std::string name() const override {
    const int generation = generation_of(board_);
    return generation > 0 ? "Intel Gaudi " + std::to_string(generation) : board_.empty() ? "Intel Gaudi" : board_;
  }
  Capabilities capabilities() const override {
    Capabilities c;
    c.dtypes = {at::kBFloat16, at::kFloat};
    if (generation_of(board_) >= 2) c.dtypes.push_back(at::kFloat8_e4m3fn);
    c.deferred_execution = lazy_mode();
    c.collective_backend = "hccl";
    c.float64 = false;  // tensors of it are kept as float32
    return c;
  }
  /// Of the whole card; the peak is that of the moments it was asked for.
  MemoryStatistics memory() const override {
    const CardMemory m = management_->memory();
    peak_ = std::max(peak_, m.used);
    return {m.total, m.available, peak_};
  }
  void seed(std::uint64_t seed) override {
    try {
      at::Generator generator = at::globalContext().defaultGenerator(torch_device());
      generator.set_current_seed(seed);
    } catch (const c10::Error&) {  // an older plug-in seeds itself from the CPU's generator at its first draw
      at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
      generator.set_current_seed(seed);
    }
  }
  void synchronize() override { flush().synchronize(); }
  void end_step() override { flush(); }
  std::unique_ptr<Event> record_event() override {
    synchronize();
    return std::make_unique<HpuEvent>();
  }
  std::vector<std::pair<std::string, std::string>> versions() const override {
    std::vector<std::pair<std::string, std::string>> out;
    std::string driver;
    std::getline(std::ifstream("/sys/module/habanalabs/version"), driver);
    if (!board_.empty()) out.emplace_back("board", board_);
    if (!driver.empty()) out.emplace_back("driver habanalabs", driver);
    out.emplace_back("plug-in", plugin_.library.string());
    if (!plugin_.torch_version.empty()) out.emplace_back("plug-in built for torch", plugin_.torch_version);
    out.emplace_back("torch", torch_version());
    out.emplace_back("mode", lazy_mode() ? "lazy" : "eager");
    const std::string cache = variable("PT_HPU_RECIPE_CACHE_CONFIG");
    out.emplace_back("recipe cache", cache.empty() ? "none: PT_HPU_RECIPE_CACHE_CONFIG=/local/folder,false,4096 saves "
                                                     "later runs the compiling"
                                                   : cache);
    return out;
  }
  /// Which card "any free one" was is not known; but no two processes get the same.
  std::string identity() const override {
    const std::string module = variable("HLS_MODULE_ID");
    return module.empty() ? "" : "module " + module;
  }
  bool adamw(const AdamWUpdate& update) override { return fused_adamw(update); }

private:
  /// Recording an event on the current stream launches what is queued, in lazy mode as in eager.
  c10::Event flush() const {
    c10::Event event(at::kHPU);
    event.record(c10::impl::VirtualGuardImpl(at::kHPU).getStream(torch_device()));
    return event;
  }

  Plugin plugin_;
  std::optional<Management> management_;
  std::string board_;
  mutable std::uint64_t peak_ = 0;
};

class HpuBackend : public Backend {
public:
  std::string kind() const override { return "hpu"; }
  int score() const override { return 90; }
  int count() const override {
    Problem problem;
    return find_plugin(problem) ? 1 : 0;
  }
  std::string why_not() const override {
    Problem problem;
    return find_plugin(problem) ? "" : problem.found + " (" + problem.remedy + ")";
  }
  std::unique_ptr<Device> open(int index) const override {
    Problem problem;
    std::optional<Plugin> plugin = find_plugin(problem);
    if (!plugin) throw Error(ExitCode::unavailable, "No hpu device: " + problem.found, problem.remedy);
    if (index != 0)
      throw Error(ExitCode::unavailable, "A process has one Gaudi card, hpu:0, not hpu:" + std::to_string(index),
                  "choose the card by HLS_MODULE_ID");
    return std::make_unique<HpuDevice>(std::move(*plugin));
  }
};

}  // namespace
}  // namespace cirrus::device::hpu

/// For the collectives: the folder habana_frameworks/torch of the plug-in, "" where there is none.
extern "C" const char* cirrus_hpu_package() {
  cirrus::device::hpu::Problem problem;
  static const auto plugin = cirrus::device::hpu::find_plugin(problem);
  return plugin ? plugin->package.c_str() : "";
}

extern "C" cirrus::device::Backend* cirrus_device_backend(int abi) {
  static cirrus::device::hpu::HpuBackend backend;
  return abi == cirrus::device::kModuleAbi ? &backend : nullptr;
}
