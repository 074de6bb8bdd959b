// _hccl_C.so of the stand-in package: ProcessGroupHCCL, a c10d::Backend in C++ that only Python can make, as the
// vendor's. It hands the bytes of the fake card's tensors, which lie in host memory, to torch.distributed's Gloo, and
// like the vendor's carries float32 and bfloat16, everything else as float32.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

/// Waits for Gloo, then writes back what travelled in another type.
class HcclWork : public c10d::Work {
public:
  /// `from` is copied to `to` unless it is the same; `result` is that on the card.
  HcclWork(WorkPointer gloo, Tensors from, Tensors to, Tensors result)
      : gloo_(std::move(gloo)), from_(std::move(from)), to_(std::move(to)), result_(std::move(result)) {}
  bool isCompleted() override { return gloo_->isCompleted(); }
  bool wait(std::chrono::milliseconds timeout) override {
    gloo_->wait(timeout);
    for (std::size_t i = 0; i < from_.size(); ++i)
      if (!from_[i].is_same(to_[i])) to_[i].copy_(from_[i]);
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    wait(kNoTimeout);
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(result_));
    return future;
  }

private:
  WorkPointer gloo_;
  Tensors from_, to_, result_;
};

class ProcessGroupHCCL : public c10d::Backend {
public:
  ProcessGroupHCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string&)
      : Backend(rank, size),
        gloo_(pybind11::module_::import("torch.distributed")
                  .attr("ProcessGroupGloo")(store, rank, size, std::chrono::milliseconds(30'000))
                  .cast<c10::intrusive_ptr<c10d::Backend>>()) {}

  const std::string getBackendName() const override { return "hccl"; }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const at::Tensor card = bytes_of(tensors.at(0));
    Tensors host{travelling(card)};
    auto work = gloo_->allreduce(host, options);
    return c10::make_intrusive<HcclWork>(std::move(work), host, Tensors{card}, tensors);
  }
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor card = bytes_of(tensors.at(0));
    Tensors host{travelling(card)};
    auto work = gloo_->broadcast(host, options);
    return c10::make_intrusive<HcclWork>(std::move(work), host, Tensors{card}, tensors);
  }
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    const at::Tensor card = bytes_of(output);
    at::Tensor out = travelling(card), in = travelling(bytes_of(input)).clone();  // may be a part of the output
    auto work = gloo_->_allgather_base(out, in, options);
    return c10::make_intrusive<HcclWork>(std::move(work), Tensors{out}, Tensors{card}, Tensors{output});
  }
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    const at::Tensor card = bytes_of(output);
    at::Tensor out = travelling(card), in = travelling(bytes_of(input));
    auto work = gloo_->_reduce_scatter_base(out, in, options);
    return c10::make_intrusive<HcclWork>(std::move(work), Tensors{out}, Tensors{card}, Tensors{output});
  }
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_rows,
                            std::vector<std::int64_t>& input_rows, const c10d::AllToAllOptions& options) override {
    const at::Tensor card = bytes_of(output).view(output.sizes());
    at::Tensor out = travelling(card), in = travelling(bytes_of(input).view(input.sizes()));
    auto work = gloo_->alltoall_base(out, in, output_rows, input_rows, options);
    return c10::make_intrusive<HcclWork>(std::move(work), Tensors{out}, Tensors{card}, Tensors{output});
  }
  WorkPointer barrier(const c10d::BarrierOptions& options) override { return gloo_->barrier(options); }

private:
  /// As it lies in memory: Gloo looks at shapes, NCCL and HCCL do not.
  static at::Tensor bytes_of(const at::Tensor& t) {
    TORCH_CHECK(t.device().type() == at::kHPU, "ProcessGroupHCCL was given a tensor on ", t.device());
    TORCH_CHECK(t.is_non_overlapping_and_dense(), "ProcessGroupHCCL was given a tensor with holes");
    return at::from_blob(t.data_ptr(), {t.numel()}, at::TensorOptions(t.scalar_type()));
  }
  static at::Tensor travelling(const at::Tensor& t) { return t.scalar_type() == at::kBFloat16 ? t : t.to(at::kFloat); }

  c10::intrusive_ptr<c10d::Backend> gloo_;
};

}  // namespace

PYBIND11_MODULE(_hccl_C, m) {
  pybind11::class_<ProcessGroupHCCL, c10d::Backend, c10::intrusive_ptr<ProcessGroupHCCL>>(m, "ProcessGroupHCCL")
      .def(pybind11::init<const c10::intrusive_ptr<c10d::Store>&, int, int, const std::string&>());
}
