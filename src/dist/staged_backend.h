// Collectives on tensors of a device that has no library for them, or whose library cannot be used: a copy to the host,
// the host's backend, a copy back. Slow and right.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace cirrus::dist {

/// A collective copies its input when it is called and its result back in wait(), on the thread that calls it: devices
/// with deferred execution take work from the threads that compute alone. In between the host's backend is at work.
class StagedBackend : public c10d::Backend {
public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  /// `host`: among the same ranks. `options`: of host tensors the device copies from, device::Device::host_options().
  StagedBackend(c10::intrusive_ptr<c10d::Backend> host, const at::TensorOptions& options);

  const std::string getBackendName() const override { return "staged over " + host_->getBackendName(); }
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_rows,
                            std::vector<std::int64_t>& input_rows, const c10d::AllToAllOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

private:
  at::Tensor room_for(const at::Tensor& tensor) const;  ///< on the host, as it lies on the device
  at::Tensor copy_of(const at::Tensor& tensor) const;
  WorkPointer staged(c10d::OpType type, WorkPointer work, Tensors from, Tensors to, Tensors kept) const;

  c10::intrusive_ptr<c10d::Backend> host_;
  at::TensorOptions options_;
};

}  // namespace cirrus::dist
