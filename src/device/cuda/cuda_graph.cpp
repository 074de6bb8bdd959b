// Recording of a card's work. Not at::cuda::CUDAGraph: what fails to be recorded must leave allocator and streams as
// they were, so that the program goes on without a graph, and LibTorch's class leaves them recording.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "base/errors.h"
#include "device/cuda/cuda_device.h"

namespace cirrus::device::cuda {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// Memory for the tensors that recorded work makes: nobody else is given it while the graph lives.
class Pool {
public:
  explicit Pool(cudaStream_t stream) : card_(c10::cuda::current_device()), id_(at::cuda::graph_pool_handle()) {
    allocator::beginAllocateToPool(card_, id_, [stream](cudaStream_t asking) { return asking == stream; });
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    close();
    try {
      allocator::releasePool(card_, id_);
    } catch (const c10::Error& e) {
      TORCH_WARN("memory of a CUDA graph is not given back: ", e.what_without_backtrace());
    }
  }
  /// From here on the stream's tensors come from the common memory again.
  void close() {
    if (open_) allocator::endAllocateToPool(card_, id_);
    open_ = false;
  }

private:
  const c10::DeviceIndex card_;
  const decltype(at::cuda::graph_pool_handle()) id_;
  bool open_ = true;
};

class CudaGraph : public Graph {
public:
  CudaGraph(std::unique_ptr<Pool> pool, cudaGraphExec_t executable) : pool_(std::move(pool)), executable_(executable) {}
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override {
    C10_CUDA_IGNORE_ERROR(cudaDeviceSynchronize());  // a replay may still use the memory
    C10_CUDA_IGNORE_ERROR(cudaGraphExecDestroy(executable_));
  }
  void replay() override { C10_CUDA_CHECK(cudaGraphLaunch(executable_, c10::cuda::getCurrentCUDAStream())); }

private:
  std::unique_ptr<Pool> pool_;
  cudaGraphExec_t executable_;
};

}  // namespace

std::unique_ptr<Graph> record_graph(const std::function<void()>& work) {
  C10_CUDA_CHECK(cudaDeviceSynchronize());  // what was queued before must not be waited for while recording
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);  // the default stream cannot be recorded
  auto pool = std::make_unique<Pool>(stream.stream());
  std::string reason;
  std::exception_ptr not_ours;
  // Other threads may go on using the device: only what this thread does must be recordable. Backward passes run on
  // LibTorch's threads, but queue on this stream.
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    work();
  } catch (const Error&) {
    not_ours = std::current_exception();
  } catch (const c10::Error& e) {
    reason = e.what_without_backtrace();
  } catch (const std::exception& e) {
    reason = e.what();
  }
  cudaGraph_t graph = nullptr;
  cudaError_t error = cudaStreamEndCapture(stream, &graph);
  static_cast<void>(cudaGetLastError());  // a broken recording is no error of what comes next
  pool->close();
  if (reason.empty() && error != cudaSuccess) reason = cudaGetErrorString(error);
  cudaGraphExec_t executable = nullptr;
  if (reason.empty() && not_ours == nullptr && graph != nullptr) {
    error = cudaGraphInstantiateWithFlags(&executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    static_cast<void>(cudaGetLastError());
    if (error != cudaSuccess) reason = cudaGetErrorString(error);
  }
  if (graph != nullptr) C10_CUDA_IGNORE_ERROR(cudaGraphDestroy(graph));
  if (not_ours != nullptr) std::rethrow_exception(not_ours);
  if (!reason.empty()) {
    TORCH_WARN_ONCE("work cannot be recorded as a CUDA graph and is queued step by step, which is slower: ",
                    reason.substr(0, reason.find('\n')));
    return nullptr;
  }
  return std::make_unique<CudaGraph>(std::move(pool), executable);
}

}  // namespace cirrus::device::cuda
