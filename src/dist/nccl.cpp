// NCCL's process group, from LibTorch. Part of the CUDA module, so that programs need neither; the one file that names
// both. Built where NCCL's header is found.
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <nccl.h>
#include <torch/csrc/cuda/nccl.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "dist/collective_library.h"

namespace cirrus::dist {
namespace {

/// Ends its communicators in order: LibTorch's own destructor leaves that to the end of the process, with a warning.
class Nccl : public c10d::ProcessGroupNCCL {
public:
  using ProcessGroupNCCL::ProcessGroupNCCL;
  ~Nccl() override {
    try {
      shutdown();
    } catch (const std::exception& e) {
      TORCH_WARN("NCCL's communicators do not end in order: ", e.what());
    }
  }
};

std::string version_text(std::uint64_t major, std::uint64_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

/// The process group's options hold a structure of nccl.h that grows from version to version: what LibTorch was
/// compiled with has to be what this file was compiled with.
std::string prepare(const std::string&) {
  const std::uint64_t version = torch::cuda::nccl::version(), major = version >> 32, minor = version >> 16 & 0xffff;
  if (major == NCCL_MAJOR && minor == NCCL_MINOR) return "";
  return "the CUDA module was built with the header of NCCL " + version_text(NCCL_MAJOR, NCCL_MINOR) +
         ", and LibTorch uses NCCL " + version_text(major, minor) +
         " (configure with -DCIRRUS_NCCL_INCLUDE= the folder of that version's nccl.h)";
}

c10::intrusive_ptr<c10d::Backend> make(const BackendRequest& request) {
  const c10::cuda::CUDAGuard guard(request.device);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request.timeout;
  options->group_name = request.name;
  auto group = c10::make_intrusive<Nccl>(request.store, request.rank, request.size, std::move(options));
  // Without it a barrier chooses a card by the rank, which is another process's where each sees one card alone.
  group->setBoundDeviceId(request.device);
  group->eagerConnectSingleDevice(request.device);  // what cannot connect fails now, not in the first step
  return group;
}

}  // namespace
}  // namespace cirrus::dist

extern "C" const cirrus::dist::CollectiveLibrary* cirrus_collectives(int abi) {
  static const cirrus::dist::CollectiveLibrary library{"NCCL", cirrus::dist::prepare, cirrus::dist::make};
  return abi == cirrus::dist::kCollectivesAbi ? &library : nullptr;
}
