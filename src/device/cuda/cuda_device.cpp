// One NVIDIA GPU: LibTorch's settings for it, its memory, its events and what it runs at useful speed.
#include "device/cuda/cuda_device.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>

#include "base/errors.h"

namespace cirrus::device::cuda {
namespace {

/// `major * 10 + minor` of the compute capability.
int capability_of(int card) {
  int major = 0, minor = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, card));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, card));
  return 10 * major + minor;
}

std::string name_of(int card) {
  cudaDeviceProp properties{};
  return cudaGetDeviceProperties(&properties, card) == cudaSuccess ? properties.name : "GPU " + std::to_string(card);
}

/// "GPU-4b2f5c1e-...", as nvidia-smi -L spells it; "" if the card does not say.
std::string uuid_of(int card) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, card) != cudaSuccess) return "";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(properties.uuid.bytes[i])));
    text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(digits);
  }
  return text;
}

/// float32 means float32 unless the user asks for TensorFloat-32, whose products have 10 bits of mantissa.
bool tf32_wanted() {
  const char* value = std::getenv("CIRRUS_TF32");
  return value != nullptr && std::string(value) == "1";
}

/// "2.28.9" of the NCCL in this process, "" if there is none.
std::string collectives_version() {
  void* library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "";
  int number = 0;
  const auto get = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  const bool found = get != nullptr && get(&number) == 0;
  dlclose(library);
  if (!found) return "";
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

class CudaEvent : public Event {
public:
  explicit CudaEvent(std::uint64_t order) : order_(order) {
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDefault));
    C10_CUDA_CHECK(cudaEventRecord(event_, c10::cuda::getCurrentCUDAStream()));
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override { C10_CUDA_IGNORE_ERROR(cudaEventDestroy(event_)); }

  double seconds_until(const Event& other) const override {
    const auto& later = dynamic_cast<const CudaEvent&>(other);
    if (later.order_ == order_) return 0;
    if (later.order_ < order_) return -later.seconds_until(*this);
    C10_CUDA_CHECK(cudaEventSynchronize(event_));
    C10_CUDA_CHECK(cudaEventSynchronize(later.event_));
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_, later.event_));
    return static_cast<double>(milliseconds) * 1e-3;
  }

private:
  cudaEvent_t event_ = nullptr;
  std::uint64_t order_;  // of recording
};

class CudaDevice : public Device {
public:
  explicit CudaDevice(int card)
      : card_(card), capability_(capability_of(card)), name_(name_of(card)), tf32_(tf32_wanted()) {}

  at::Device torch_device() const override { return {at::kCUDA, static_cast<c10::DeviceIndex>(card_)}; }
  std::string name() const override { return name_; }
  Capabilities capabilities() const override {
    Capabilities c;
    if (capability_ >= 80) c.dtypes.push_back(at::kBFloat16);
    c.dtypes.push_back(at::kFloat);
    // Before compute capability 8.0 float16 alone uses the tensor cores.
    c.dtypes.insert(capability_ >= 80 ? c.dtypes.end() : c.dtypes.begin(), at::kHalf);
    if (capability_ >= 89) c.dtypes.push_back(at::kFloat8_e4m3fn);
    c.graph_capture = true;
    c.tf32 = tf32_ && capability_ >= 80;
    c.collective_backend = "nccl";
    return c;
  }
  MemoryStatistics memory() const override {
    std::size_t available = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&available, &total));
    const auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(card_));
    constexpr std::size_t kAll = 0;  // pools of small and of large blocks together
    const auto &used = statistics.allocated_bytes[kAll], &held = statistics.reserved_bytes[kAll];
    // What LibTorch holds and does not use is there for its next tensors.
    const auto cached = static_cast<std::uint64_t>(std::max<std::int64_t>(held.current - used.current, 0));
    return {total, std::min<std::uint64_t>(available + cached, total), static_cast<std::uint64_t>(used.peak)};
  }
  void seed(std::uint64_t seed) override {
    at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(static_cast<c10::DeviceIndex>(card_));
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  }
  void synchronize() override { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
  void end_step() override {}
  bool adamw(const AdamWUpdate& u) override {
    at::_fused_adamw_(u.weights, u.gradients, u.first, u.second, {}, u.steps, u.rate, u.beta1, u.beta2, u.weight_decay,
                      u.epsilon, false, false, {}, u.overflow);
    return true;
  }
  std::unique_ptr<Event> record_event() override { return std::make_unique<CudaEvent>(++events_); }
  std::unique_ptr<Graph> capture(const std::function<void()>& work) override { return record_graph(work); }
  at::TensorOptions host_options() const override { return at::TensorOptions(at::kCPU).pinned_memory(true); }

  std::string identity() const override { return uuid_of(card_); }
  std::vector<std::pair<std::string, std::string>> versions() const override {
    int driver = 0, runtime = 0;
    C10_CUDA_CHECK(cudaDriverGetVersion(&driver));
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    const long cudnn = at::Context::versionCuDNN();
    std::vector<std::pair<std::string, std::string>> list{
        {"compute capability", compute_capability(card_)},
        {"NVIDIA driver", driver_version() + ", CUDA " + cuda_version(driver)},
        {"CUDA runtime", cuda_version(runtime)},
        {"cuDNN",
         std::to_string(cudnn / 10000) + "." + std::to_string(cudnn / 100 % 100) + "." + std::to_string(cudnn % 100)}};
    if (const std::string version = collectives_version(); !version.empty()) list.emplace_back("NCCL", version);
    return list;
  }

private:
  const int card_, capability_;
  const std::string name_;
  const bool tf32_;
  std::uint64_t events_ = 0;
};

}  // namespace

std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string driver_version() {
  std::ifstream in("/sys/module/nvidia/version");
  std::string version;
  in >> version;
  return version.empty() ? "of unknown version" : version;
}

std::string compute_capability(int card) {
  const int capability = capability_of(card);
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::unique_ptr<Device> open_card(int card) {
  // First of all, so that nothing takes memory of another card. This makes the card's context and tells if it cannot.
  cudaError_t error = cudaSetDevice(card);
  if (error == cudaSuccess) error = cudaFree(nullptr);
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    const std::string which = "GPU " + std::to_string(card) + " (" + name_of(card) + ")";
    if (error == cudaErrorDevicesUnavailable)
      throw Error(ExitCode::unavailable,
                  which + " is in use by another process, or set to exclusive or prohibited compute mode",
                  "nvidia-smi shows both; choose another one with --device cuda:N");
    if (error == cudaErrorMemoryAllocation)
      throw Error(ExitCode::unavailable, which + " has no memory left to be opened",
                  "nvidia-smi shows who has it; choose another one with --device cuda:N");
    throw Error(ExitCode::unavailable, which + " cannot be opened: " + cudaGetErrorString(error));
  }
  if (!at::hasCUDA())  // LibTorch asks once in a process which devices there are
    throw Error(ExitCode::internal, "LibTorch was in use before its CUDA half was loaded",
                "open the device before other work");
  at::globalContext().setAllowTF32CuBLAS(tf32_wanted());
  at::globalContext().setAllowTF32CuDNN(tf32_wanted());
  at::globalContext().setBenchmarkCuDNN(true);
  // Starts LibTorch's allocator, whose statistics memory() reads.
  at::empty({1}, at::TensorOptions(at::kByte).device(at::kCUDA, static_cast<c10::DeviceIndex>(card)));
  return std::make_unique<CudaDevice>(card);
}

}  // namespace cirrus::device::cuda
