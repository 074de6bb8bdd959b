// To the host and back.
#include "dist/staged_backend.h"

#include <mutex>

#include "base/errors.h"

namespace cirrus::dist {
namespace {

/// The host's work, and what is to be copied once it is done.
class StagedWork : public c10d::Work {
public:
  /// Copies each of `from` to the tensor of the same place in `to`. `kept`: what the host's work reads.
  StagedWork(int rank, c10d::OpType type, c10::intrusive_ptr<c10d::Work> host, std::vector<at::Tensor> from,
             std::vector<at::Tensor> to, std::vector<at::Tensor> kept)
      : Work(rank, type), host_(std::move(host)), from_(std::move(from)), to_(std::move(to)), kept_(std::move(kept)) {}

  /// The ranks' part is done; what is left, wait() does.
  bool isCompleted() override { return host_->isCompleted(); }
  bool isSuccess() const override { return host_->isSuccess(); }
  std::exception_ptr exception() const override { return host_->exception(); }
  bool wait(std::chrono::milliseconds timeout) override {
    host_->wait(timeout);
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < from_.size(); ++i) to_[i].copy_(from_[i]);
    from_.clear();
    kept_.clear();
    return true;
  }
  std::vector<at::Tensor> result() override { return to_; }
  /// Completed, after wait(): who asks for it goes on with the result.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    wait(kNoTimeout);
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(to_));
    return future;
  }

private:
  c10::intrusive_ptr<c10d::Work> host_;
  std::mutex mutex_;
  std::vector<at::Tensor> from_, to_, kept_;
};

const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1) throw Error(ExitCode::internal, "A collective takes one tensor a rank here");
  return tensors[0];
}

}  // namespace

StagedBackend::StagedBackend(c10::intrusive_ptr<c10d::Backend> host, const at::TensorOptions& options)
    : Backend(host->getRank(), host->getSize()), host_(std::move(host)), options_(options) {}

at::Tensor StagedBackend::room_for(const at::Tensor& t) const {
  const at::TensorOptions options = options_.dtype(t.scalar_type());
  return t.is_non_overlapping_and_dense() ? at::empty_strided(t.sizes(), t.strides(), options)
                                          : at::empty(t.sizes(), options);
}

at::Tensor StagedBackend::copy_of(const at::Tensor& t) const {
  at::Tensor host = room_for(t);
  return host.copy_(t);
}

StagedBackend::WorkPointer StagedBackend::staged(c10d::OpType type, WorkPointer work, Tensors from, Tensors to,
                                                 Tensors kept) const {
  return c10::make_intrusive<StagedWork>(getRank(), type, std::move(work), std::move(from), std::move(to),
                                         std::move(kept));
}

StagedBackend::WorkPointer StagedBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  Tensors host{copy_of(only(tensors))};
  return staged(c10d::OpType::ALLREDUCE, host_->allreduce(host, options), host, tensors, {});
}

StagedBackend::WorkPointer StagedBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const bool sends = static_cast<int>(options.rootRank) == getRank();
  Tensors host{sends ? copy_of(only(tensors)) : room_for(only(tensors))};
  return staged(c10d::OpType::BROADCAST, host_->broadcast(host, options), sends ? Tensors() : host, tensors, host);
}

StagedBackend::WorkPointer StagedBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  if (outputs.size() != 1) throw Error(ExitCode::internal, "A collective takes one tensor a rank here");
  Tensors in{copy_of(only(inputs))};
  std::vector<Tensors> out(1);
  for (const at::Tensor& output : outputs[0]) out[0].push_back(room_for(output));
  return staged(c10d::OpType::ALLGATHER, host_->allgather(out, in, options), out[0], outputs[0], in);
}

StagedBackend::WorkPointer StagedBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                          const c10d::AllgatherOptions& options) {
  at::Tensor out = room_for(output), in = copy_of(input);
  return staged(c10d::OpType::_ALLGATHER_BASE, host_->_allgather_base(out, in, options), {out}, {output}, {in});
}

StagedBackend::WorkPointer StagedBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                               const c10d::ReduceScatterOptions& options) {
  at::Tensor out = room_for(output), in = copy_of(input);
  return staged(c10d::OpType::_REDUCE_SCATTER_BASE, host_->_reduce_scatter_base(out, in, options), {out}, {output},
                {in});
}

StagedBackend::WorkPointer StagedBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                        std::vector<std::int64_t>& output_rows,
                                                        std::vector<std::int64_t>& input_rows,
                                                        const c10d::AllToAllOptions& options) {
  at::Tensor out = room_for(output), in = copy_of(input);
  return staged(c10d::OpType::ALLTOALL_BASE, host_->alltoall_base(out, in, output_rows, input_rows, options), {out},
                {output}, {in});
}

StagedBackend::WorkPointer StagedBackend::barrier(const c10d::BarrierOptions& options) {
  return host_->barrier(options);
}

}  // namespace cirrus::dist
