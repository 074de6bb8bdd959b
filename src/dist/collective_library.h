// What a library of collectives offers, whichever it is: NCCL's part of the CUDA module and the bridge to HCCL each
// export one of these, and device_backend.cpp finds it.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace cirrus::dist {

/// A group that wants a backend.
struct BackendRequest {
  c10::intrusive_ptr<c10d::Store> store;  ///< of this group alone, over a connection of its own
  int rank = 0, size = 1;
  std::string name;
  at::Device device = at::kCPU;
  std::chrono::milliseconds timeout{};  ///< after which the library may end the process
};

struct CollectiveLibrary {
  const char* name;  ///< "NCCL"
  /// Starts what the library needs in this process. "" or, where it cannot be used, the reason in a sentence without a
  /// full stop. `plugin`: folder of the device's Python package, where it has one. Throws nothing.
  std::string (*prepare)(const std::string& plugin);
  /// All ranks of the group call it. Throws what the library throws.
  c10::intrusive_ptr<c10d::Backend> (*make)(const BackendRequest& request);
};

/// The symbol: `extern "C" const cirrus::dist::CollectiveLibrary* cirrus_collectives(int abi)`; null if abi differs.
inline constexpr int kCollectivesAbi = 1;
using CollectiveEntry = const CollectiveLibrary* (*)(int abi);

}  // namespace cirrus::dist
