// Collectives on a c10d backend, with their numbers.
#include "dist/process_group.h"

#include "base/errors.h"
#include "dist/connection.h"
#include "dist/device_backend.h"

namespace cirrus::dist {

ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Backend> backend, std::string name, Connection* connection)
    : backend_(std::move(backend)), name_(std::move(name)), connection_(connection) {}

void ProcessGroup::count(Traffic::Kind& kind, std::int64_t bytes, double share) {
  ++kind.calls;
  kind.bytes += bytes;
  kind.sent += static_cast<std::int64_t>(share * static_cast<double>(bytes) * (size() - 1) / size());
}

Pending ProcessGroup::began(c10::intrusive_ptr<c10d::Work> work, const char* operation, const char* site) {
  if (!work) return {};
  if (connection_ != nullptr)
    connection_->watchdog().began(work, name_, ++number_, std::string(operation) + " of " + site);
  return Pending(std::move(work));
}

Pending ProcessGroup::all_reduce(const at::Tensor& tensor, Reduce op, const char* site) {
  count(traffic_.all_reduce, static_cast<std::int64_t>(tensor.nbytes()), 2);
  if (!backend_) return {};
  std::vector<at::Tensor> tensors{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op == Reduce::sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
  return began(backend_->allreduce(tensors, options), "all-reduce", site);
}

Pending ProcessGroup::all_gather(const at::Tensor& out, const at::Tensor& in, const char* site) {
  count(traffic_.all_gather, static_cast<std::int64_t>(out.nbytes()), 1);
  at::Tensor to = out, from = in;
  if (!backend_) {
    if (to.data_ptr() != from.data_ptr()) to.view(-1).copy_(from.view(-1));
    return {};
  }
  return began(backend_->_allgather_base(to, from), "all-gather", site);
}

Pending ProcessGroup::reduce_scatter(const at::Tensor& out, const at::Tensor& in, const char* site) {
  count(traffic_.reduce_scatter, static_cast<std::int64_t>(in.nbytes()), 1);
  at::Tensor to = out, from = in;
  if (!backend_) {
    to.view(-1).copy_(from.view(-1));
    return {};
  }
  return began(backend_->_reduce_scatter_base(to, from), "reduce-scatter", site);
}

Pending ProcessGroup::broadcast(const at::Tensor& tensor, int root, const char* site) {
  count(traffic_.broadcast, static_cast<std::int64_t>(tensor.nbytes()), 1);
  if (!backend_) return {};
  std::vector<at::Tensor> tensors{tensor};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return began(backend_->broadcast(tensors, options), "broadcast", site);
}

Pending ProcessGroup::exchange(const at::Tensor& out, std::vector<std::int64_t> out_rows, const at::Tensor& in,
                               std::vector<std::int64_t> in_rows, const char* site) {
  const std::int64_t kept = in_rows.empty() ? 0 : in_rows[static_cast<std::size_t>(rank())];
  const std::int64_t row = in.dim() == 0 || in.size(0) == 0 ? 0 : static_cast<std::int64_t>(in.nbytes()) / in.size(0);
  ++traffic_.exchange.calls;
  traffic_.exchange.bytes += static_cast<std::int64_t>(in.nbytes());
  traffic_.exchange.sent += static_cast<std::int64_t>(in.nbytes()) - kept * row;
  at::Tensor to = out, from = in;
  if (!backend_) {
    to.copy_(from);
    return {};
  }
  return began(backend_->alltoall_base(to, from, out_rows, in_rows), "exchange", site);
}

void ProcessGroup::barrier(const char* site) {
  if (!backend_) return;
  began(backend_->barrier(), "barrier", site).wait();
}

Members all_ranks(const World& world, const std::string& name) { return {name, 0, world.rank, world.size}; }

Members ranks_of_node(const World& world, const std::string& name) {
  return {name, world.node, world.local_rank, world.local_size};
}

Members ranks_across_nodes(const World& world, const std::string& name) {
  return {name, world.local_rank, world.node, world.nodes};
}

std::shared_ptr<ProcessGroup> make_group(const World& world, const device::Device& device, const Members& members) {
  if (world.size == 1) return std::make_shared<ProcessGroup>();
  Connection& connection = *world.connection;
  if (device.torch_device().is_cpu() && !connection.has_mpi())
    throw Error(ExitCode::unavailable,
                "Several processes on the CPU need MPI, and these were started by " +
                    std::string(world.launcher == "environment" ? "RANK and WORLD_SIZE" : world.launcher),
                "launch with mpiexec or srun; a build without MPI: configure with -DCIRRUS_MPI=ON");
  return std::make_shared<ProcessGroup>(
      device.torch_device().is_cpu() ? connection.host_backend(members.name, members.color, members.rank, members.size)
                                     : make_device_backend(world, device, members),
      members.name, &connection);
}

}  // namespace cirrus::dist
