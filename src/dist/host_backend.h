// A c10d backend for tensors in host memory: collectives are queued and run in order by one thread, so that the caller
// computes meanwhile. How bytes travel is the business of those who derive from it: mpi_backend.cpp, store_backend.cpp.
#pragma once

#include <ATen/ATen.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace cirrus::dist {

/// What travels: `count` elements of `type` at `data`.
struct HostBuffer {
  void* data = nullptr;
  std::int64_t count = 0;
  at::ScalarType type = at::kFloat;
  std::int64_t bytes() const { return count * static_cast<std::int64_t>(c10::elementSize(type)); }
};

/// Deriving classes call start() at the end of their constructors and stop() at the beginning of their destructors.
class HostBackend : public c10d::Backend {
public:
  using Reduce = c10d::ReduceOp::RedOpType;
  using Tensors = std::vector<at::Tensor>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  HostBackend(int rank, int size);
  ~HostBackend() override;

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_rows,
                            std::vector<std::int64_t>& input_rows, const c10d::AllToAllOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

protected:
  void start();
  /// Ends the thread; what is still queued is given up, and a collective that runs is left to its fate.
  void stop();

  // On the thread. All in place: buffers are dense, and the same on all ranks in count and type.
  virtual void reduce_all(const HostBuffer& buffer, Reduce op) = 0;
  virtual void send_to_all(const HostBuffer& buffer, int root) = 0;
  /// `output` holds size times `input`.
  virtual void gather_to_all(const HostBuffer& output, const HostBuffer& input) = 0;
  virtual void reduce_and_scatter(const HostBuffer& output, const HostBuffer& input, Reduce op) = 0;
  /// Bytes for and from each rank, in rank order.
  virtual void exchange(const HostBuffer& output, const std::vector<std::int64_t>& output_bytes,
                        const HostBuffer& input, const std::vector<std::int64_t>& input_bytes) = 0;
  virtual void meet() = 0;

private:
  class HostWork;
  struct Job {
    std::function<void()> run;
    c10::intrusive_ptr<HostWork> work;
  };
  struct Queue;
  WorkPointer enqueue(c10d::OpType type, Tensors outputs, std::function<void()> run);

  std::shared_ptr<Queue> queue_;  ///< shared with the thread, which may outlive this object after a failure
  std::thread thread_;
};

/// Divides in place by the number of ranks. Throws Error(internal) for whole numbers.
void divide(const HostBuffer& buffer, int size);

}  // namespace cirrus::dist
