// One interface for every kind of device, and the registry that finds them.
//
// A Device is opened once by an app and passed down by reference; all tensors of a run live on `torch_device()`. It is
// used from one thread at a time. CPU is compiled in; CUDA and Gaudi come as modules (libcirrus_cuda.so,
// libcirrus_hpu.so) that are loaded when asked for, so that a build runs with or without them and `--help` loads
// neither. A missing device is an error (exit 69) with a remedy, never a silent fall to the CPU.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cirrus::device {

/// What a device can do; read before a run is planned.
struct Capabilities {
  std::vector<at::ScalarType> dtypes;  ///< compute types it runs at useful speed, preferred first
  bool graph_capture = false;          ///< a step can be recorded and replayed
  bool deferred_execution = false;     ///< work is queued until end_step()
  std::string collective_backend{};    ///< "mpi", "nccl", "hccl", or empty
  bool float64 = true;                 ///< double precision exists there
  bool tf32 = false;                   ///< products in fp32 are rounded to TF32, as the user asked (CIRRUS_TF32=1)
};

/// Bytes.
struct MemoryStatistics {
  std::uint64_t total = 0, available = 0, peak_used = 0;
};

/// A point in a device's work queue, for timing.
class Event {
public:
  virtual ~Event() = default;
  /// Seconds from this event to `later` (both recorded); waits for both.
  virtual double seconds_until(const Event& later) const = 0;
};

/// Work that was recorded once and can be queued again as a whole.
class Graph {
public:
  virtual ~Graph() = default;
  /// Queues the recorded work; it reads and writes the memory it was recorded on.
  virtual void replay() = 0;
};

/// One AdamW update (Loshchilov and Hutter 2019) of all tensors, in place.
struct AdamWUpdate {
  std::vector<at::Tensor> weights, gradients, first, second;  ///< float32, on the device; gradients are only read
  std::vector<at::Tensor> steps;              ///< the step number t, once for each tensor (may share memory)
  at::Tensor rate, correction1, correction2;  ///< 0-d, on the device: rate, 1 - beta1^t, 1 - beta2^t
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  std::optional<at::Tensor> overflow{};  ///< float16: above 0, nothing is changed
};

class Device {
public:
  virtual ~Device() = default;
  virtual at::Device torch_device() const = 0;
  /// As the table of peak rates spells it, e.g. "AMD EPYC 9654" or "NVIDIA H100 80GB HBM3".
  virtual std::string name() const = 0;
  virtual Capabilities capabilities() const = 0;
  virtual MemoryStatistics memory() const = 0;
  virtual void seed(std::uint64_t seed) = 0;
  /// Waits until all queued work is done.
  virtual void synchronize() = 0;
  /// Ends a unit of work (a backward pass, an optimizer step, a sampler step): flushes a deferred graph; nothing on CPU
  /// and CUDA.
  virtual void end_step() = 0;
  virtual std::unique_ptr<Event> record_event() = 0;
  /// Records what `work` queues without running it. `work` has run at least once before (so that libraries are warm),
  /// copies nothing from or to pageable host memory and waits for nothing; the caller keeps all tensors that it reads
  /// or writes. Null where the device cannot record this: the caller then goes on calling `work` itself.
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& /*work*/) { return nullptr; }
  /// The update by the device's own fused operator. False, and nothing done, where it has none for these tensors. Each
  /// gradient and moment has the strides of its weight.
  virtual bool adamw(const AdamWUpdate& /*update*/) { return false; }
  /// Options of host tensors from which copies to the device need not make the host wait.
  virtual at::TensorOptions host_options() const { return at::TensorOptions(at::kCPU); }
  /// What a report names beside the device: driver, libraries, compute capability, each with its version.
  virtual std::vector<std::pair<std::string, std::string>> versions() const { return {}; }
  /// What tells this card from every other one of the host, in every process alike; "" where there is nothing to tell.
  virtual std::string identity() const { return ""; }
};

/// A kind of device: how to find out whether it is there, and how to open it. Registered once, lives for the whole
/// program.
class Backend {
public:
  virtual ~Backend() = default;
  virtual std::string kind() const = 0;     ///< "cpu", "cuda", "hpu"
  virtual int score() const = 0;            ///< `auto` takes the available backend with the highest score
  virtual int count() const = 0;            ///< devices of this kind that can be opened now
  virtual std::string why_not() const = 0;  ///< if count() is 0: the reason and what to do
  virtual std::unique_ptr<Device> open(int index) const = 0;
};

/// The symbol a module exports: `extern "C" cirrus::device::Backend* cirrus_device_backend(int abi)`; null if abi
/// differs.
inline constexpr int kModuleAbi = 3;
using ModuleEntry = Backend* (*)(int abi);

/// Adds a backend (tests register fakes so); the registry does not own it.
void register_backend(Backend* backend);

/// All kinds that exist, loading modules that are installed. What cannot be loaded is reported by `why_not()` of a
/// stand-in.
std::vector<Backend*> backends();

/// Opens "auto", "cpu", "cuda", "cuda:1", "hpu". Throws Error(usage) for an unknown name, Error(unavailable) for a
/// missing device. To be called before other work of LibTorch, which asks once in a process which devices there are (at
/// its first convolution, say): a module that is loaded later is not seen.
std::unique_ptr<Device> open_device(const std::string& name);

/// The CPU, open for the life of the program.
Device& cpu();

/// Resolves --dtype auto|fp32|bf16|fp16 on a device. auto: bf16 where the device runs it fast, else fp32. Throws
/// Error(usage) for an unknown name, Error(unavailable) for fp16 on a device that does not list it.
at::ScalarType resolve_dtype(const std::string& name, const Device& device);
std::string dtype_name(at::ScalarType type);  ///< "fp32", "bf16", "fp16"

}  // namespace cirrus::device
