// NVIDIA GPUs as a kind of device: which cards can be opened, and for what stands in the way a sentence and a remedy.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/errors.h"
#include "device/cuda/cuda_device.h"

namespace cirrus::device::cuda {
namespace {

/// Compute capabilities that the module has machine code for; of the last also PTX, which the driver compiles for newer
/// cards.
constexpr auto kCompiled = std::to_array({CIRRUS_CUDA_ARCHITECTURES});

/// Whether the module has code for a card: machine code runs within its major version, from its minor version on.
bool has_code_for(int major, int minor) {
  return 10 * major + minor >= kCompiled.back() ||
         std::any_of(kCompiled.begin(), kCompiled.end(), [&](int c) { return c / 10 == major && c % 10 <= minor; });
}

std::string compiled_list() {
  std::string list;
  for (const int c : kCompiled) list += std::to_string(c / 10) + "." + std::to_string(c % 10) + ", ";
  return list + "and newer";
}

/// What the driver says when it is asked for its cards.
struct Survey {
  std::vector<int> cards;  ///< CUDA numbers of those that can be opened
  std::string reason;      ///< if there is none
};

std::string reason_of(cudaError_t error, int driver) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  switch (error) {
    case cudaErrorInsufficientDriver: {
      int runtime = 0;
      static_cast<void>(cudaRuntimeGetVersion(&runtime));
      return "the NVIDIA driver " + driver_version() + " supports CUDA " + cuda_version(driver) +
             ", this build needs CUDA " + cuda_version(runtime) + ": install a newer driver";
    }
    case cudaErrorNoDevice:
      if (visible != nullptr)
        return "CUDA_VISIBLE_DEVICES is '" + std::string(visible) +
               "', which leaves no GPU: unset it, or name one that nvidia-smi lists";
      return "the NVIDIA driver sees no GPU: nvidia-smi must list one";
    case cudaErrorStubLibrary:
      return "libcuda.so.1 is the toolkit's stub for linking: take its folder (.../stubs) out of LD_LIBRARY_PATH";
    case cudaErrorSystemNotReady:
      return "the system is not ready for CUDA: nvidia-fabricmanager must run on machines with NVSwitch";
    case cudaErrorSystemDriverMismatch:
      return "the NVIDIA kernel driver and libcuda.so.1 are of different versions: restart after a driver's update, or "
             "give the container the host's driver";
    case cudaErrorCompatNotSupportedOnDevice:
      return "CUDA's forward compatibility package does not serve this card: install a newer driver instead";
    default:
      return std::string("the NVIDIA driver answers '") + cudaGetErrorString(error) + "': nvidia-smi may say more";
  }
}

Survey survey() {
  Survey s;
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    static_cast<void>(cudaGetLastError());
    s.reason = "no NVIDIA driver is installed here (a container needs its host's: --gpus all or --nv)";
    return s;
  }
  cudaError_t error = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess) {
    s.reason = reason_of(error, driver);
    return s;
  }
  for (int card = 0; card < count; ++card) {
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, card) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, card) != cudaSuccess) {
      s.reason = "GPU " + std::to_string(card) + " does not answer: nvidia-smi may say more";
      static_cast<void>(cudaGetLastError());
    } else if (has_code_for(major, minor)) {
      s.cards.push_back(card);
    } else {
      s.reason = "GPU " + std::to_string(card) + " has compute capability " + std::to_string(major) + "." +
                 std::to_string(minor) + ", this build has code for " + compiled_list() +
                 ": build Cirrus with a CUDA toolkit and a LibTorch that still know the card";
    }
  }
  return s;
}

class CudaBackend : public Backend {
public:
  std::string kind() const override { return "cuda"; }
  int score() const override { return 100; }
  int count() const override { return static_cast<int>(found().cards.size()); }
  std::string why_not() const override { return found().cards.empty() ? found().reason : ""; }
  /// Counts cards this build has code for: `cuda:1` is the second of those.
  std::unique_ptr<Device> open(int index) const override {
    if (index < 0 || index >= count())
      throw Error(ExitCode::unavailable, "There is no cuda:" + std::to_string(index) + " among " +
                                             std::to_string(count()) + " GPU(s) that can be used");
    return open_card(found().cards[static_cast<std::size_t>(index)]);
  }

private:
  /// Asked once: the driver reads CUDA_VISIBLE_DEVICES once.
  static const Survey& found() {
    static const Survey s = survey();
    return s;
  }
};

}  // namespace
}  // namespace cirrus::device::cuda

extern "C" cirrus::device::Backend* cirrus_device_backend(int abi) {
  static cirrus::device::cuda::CudaBackend backend;
  return abi == cirrus::device::kModuleAbi ? &backend : nullptr;
}
