// The queue and its thread.
#include "dist/host_backend.h"

#include <ATen/Parallel.h>

#include <exception>

#include "base/errors.h"

namespace cirrus::dist {

/// Complete once its job has run.
class HostBackend::HostWork : public c10d::Work {
public:
  HostWork(int rank, c10d::OpType type, Tensors outputs)
      : Work(rank, type),
        outputs_(std::move(outputs)),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}
  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  std::exception_ptr exception() const override { return future_->exception_ptr(); }
  bool wait(std::chrono::milliseconds) override {
    future_->waitAndThrow();
    return true;
  }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  void finish(std::exception_ptr error) {
    if (error)
      future_->setError(error);
    else
      future_->markCompleted(c10::IValue(outputs_));
  }

private:
  Tensors outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

struct HostBackend::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  bool closed = false, busy = false;
};

namespace {

/// A tensor's memory as it lies. Throws Error(internal) for what is no dense tensor on the host.
HostBuffer memory_of(const at::Tensor& t) {
  if (!t.is_cpu() || !t.is_non_overlapping_and_dense())
    throw Error(ExitCode::internal, "A collective on host memory was given a tensor on " + t.device().str() +
                                        (t.is_cpu() ? " with holes" : ""));
  return {t.data_ptr(), t.numel(), t.scalar_type()};
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1) throw Error(ExitCode::internal, "A collective takes one tensor a rank here");
  return tensors[0];
}

void require_size(const HostBuffer& large, const HostBuffer& small, int size) {
  if (large.count != small.count * size || large.type != small.type)
    throw Error(ExitCode::internal, "A collective over " + std::to_string(size) + " ranks was given " +
                                        std::to_string(large.count) + " and " + std::to_string(small.count) +
                                        " elements");
}

template <class T>
void divide_as(const HostBuffer& b, int size) {
  T* p = static_cast<T*>(b.data);
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (std::int64_t i = 0; i < b.count; ++i) p[i] = static_cast<T>(static_cast<Wide>(p[i]) / static_cast<Wide>(size));
}

}  // namespace

void divide(const HostBuffer& b, int size) {
  switch (b.type) {
    case at::kDouble:
      return divide_as<double>(b, size);
    case at::kFloat:
      return divide_as<float>(b, size);
    case at::kHalf:
      return divide_as<c10::Half>(b, size);
    case at::kBFloat16:
      return divide_as<c10::BFloat16>(b, size);
    default:
      throw Error(ExitCode::internal, std::string("No mean of elements of type ") + c10::toString(b.type));
  }
}

HostBackend::HostBackend(int rank, int size) : Backend(rank, size), queue_(std::make_shared<Queue>()) {}
HostBackend::~HostBackend() = default;

void HostBackend::start() {
  thread_ = std::thread([queue = queue_] {
    at::set_num_threads(1);
    std::unique_lock lock(queue->mutex);
    while (true) {
      queue->changed.wait(lock, [&] { return queue->closed || !queue->jobs.empty(); });
      if (queue->closed) return;
      Job job = std::move(queue->jobs.front());
      queue->jobs.pop_front();
      queue->busy = true;
      lock.unlock();
      std::exception_ptr error;
      try {
        job.run();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      queue->busy = false;
      const bool closed = queue->closed;
      lock.unlock();
      if (!closed) job.work->finish(error);
      job = {};
      lock.lock();
    }
  });
}

void HostBackend::stop() {
  std::unique_lock lock(queue_->mutex);
  queue_->closed = true;
  const bool stuck = queue_->busy;  // others never came: this run is failing
  lock.unlock();
  queue_->changed.notify_all();
  if (!thread_.joinable()) return;
  if (stuck)
    thread_.detach();
  else
    thread_.join();
}

HostBackend::WorkPointer HostBackend::enqueue(c10d::OpType type, Tensors outputs, std::function<void()> run) {
  auto work = c10::make_intrusive<HostWork>(getRank(), type, std::move(outputs));
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->jobs.push_back({std::move(run), work});
  }
  queue_->changed.notify_one();
  return work;
}

HostBackend::WorkPointer HostBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const HostBuffer buffer = memory_of(only(tensors));
  return enqueue(c10d::OpType::ALLREDUCE, tensors,
                 [this, buffer, op = static_cast<Reduce>(options.reduceOp), keep = tensors] {
                   reduce_all(buffer, op == Reduce::AVG ? Reduce::SUM : op);
                   if (op == Reduce::AVG) divide(buffer, getSize());
                 });
}

HostBackend::WorkPointer HostBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const HostBuffer buffer = memory_of(only(tensors));
  return enqueue(
      c10d::OpType::BROADCAST, tensors,
      [this, buffer, root = static_cast<int>(options.rootRank), keep = tensors] { send_to_all(buffer, root); });
}

HostBackend::WorkPointer HostBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::AllgatherOptions&) {
  const HostBuffer out = memory_of(output), in = memory_of(input);
  require_size(out, in, getSize());
  return enqueue(c10d::OpType::_ALLGATHER_BASE, {output},
                 [this, out, in, keep = Tensors{output, input}] { gather_to_all(out, in); });
}

HostBackend::WorkPointer HostBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions&) {
  const at::Tensor input = only(inputs).contiguous();
  if (outputs.size() != 1 || static_cast<int>(outputs[0].size()) != getSize())
    throw Error(ExitCode::internal, "An all-gather needs one output a rank");
  const at::Tensor all = at::empty({getSize() * input.numel()}, input.options());
  return enqueue(c10d::OpType::ALLGATHER, outputs[0], [this, input, all, out = outputs[0]] {
    gather_to_all(memory_of(all), memory_of(input));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i].copy_(all.narrow(0, static_cast<std::int64_t>(i) * input.numel(), input.numel()).view(input.sizes()));
  });
}

HostBackend::WorkPointer HostBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                           const c10d::ReduceScatterOptions& options) {
  const HostBuffer out = memory_of(output), in = memory_of(input);
  require_size(in, out, getSize());
  return enqueue(c10d::OpType::_REDUCE_SCATTER_BASE, {output},
                 [this, out, in, op = static_cast<Reduce>(options.reduceOp), keep = Tensors{output, input}] {
                   reduce_and_scatter(out, in, op == Reduce::AVG ? Reduce::SUM : op);
                   if (op == Reduce::AVG) divide(out, getSize());
                 });
}

HostBackend::WorkPointer HostBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<std::int64_t>& output_rows,
                                                    std::vector<std::int64_t>& input_rows,
                                                    const c10d::AllToAllOptions&) {
  const HostBuffer out = memory_of(output), in = memory_of(input);
  const auto bytes = [&](const HostBuffer& b, const at::Tensor& t, const std::vector<std::int64_t>& rows) {
    std::vector<std::int64_t> parts(static_cast<std::size_t>(getSize()), b.bytes() / getSize());
    const std::int64_t row = t.dim() == 0 || t.size(0) == 0 ? 0 : b.bytes() / t.size(0);
    for (std::size_t i = 0; i < rows.size(); ++i) parts.at(i) = rows[i] * row;
    return parts;
  };
  return enqueue(c10d::OpType::ALLTOALL_BASE, {output},
                 [this, out, in, from = bytes(out, output, output_rows), to = bytes(in, input, input_rows),
                  keep = Tensors{output, input}] { exchange(out, from, in, to); });
}

HostBackend::WorkPointer HostBackend::barrier(const c10d::BarrierOptions&) {
  return enqueue(c10d::OpType::BARRIER, {}, [this] { meet(); });
}

}  // namespace cirrus::dist
