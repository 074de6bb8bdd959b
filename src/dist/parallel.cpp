// What all strategies share: names, shapes, equal beginnings.
#include "dist/parallel.h"

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "base/files.h"
#include "dist/data_parallel.h"
#include "dist/sharded.h"

namespace cirrus::dist {

std::string strategy_name(const ParallelOptions& o) {
  return o.strategy + (o.keep_frozen ? ", frozen kept" : "") + (o.recompute ? ", recompute" : "");
}

void check_options(const ParallelOptions& o, const World& world) {
  static const char* const known[] = {"none", "ddp", "zero1", "zero2", "zero3", "fsdp", "hybrid"};
  if (std::find(std::begin(known), std::end(known), o.strategy) == std::end(known))
    throw Error(ExitCode::config, "Unknown parallel strategy '" + o.strategy + "'",
                "use none, ddp, zero1, zero2, zero3, fsdp or hybrid");
  if (o.strategy == "none") require_single(world, "--parallel none");
  if (o.strategy == "hybrid" && !world.node_of.empty() && !world.is_uniform())
    throw Error(ExitCode::unavailable, "hybrid needs equally many ranks on each host, numbered host by host",
                "start as many a host, in blocks (mpiexec -ppn N, srun --ntasks-per-node=N), or use fsdp");
}

NamedTensors trained(const std::vector<Unit>& units) {
  NamedTensors out;
  for (const Unit& unit : units)
    for (const auto& [name, tensor] : unit.tensors)
      if (tensor.requires_grad()) out.emplace_back(name, tensor);
  return out;
}

at::Tensor in_memory_order(const at::Tensor& tensor) {
  const at::Tensor t = tensor.detach();
  if (!t.is_non_overlapping_and_dense()) throw Error(ExitCode::internal, "A parameter's elements do not lie densely");
  return t.as_strided({t.numel()}, {1}, t.storage_offset());
}

Parameter describe(const std::string& name, const at::Tensor& t) {
  Parameter p{name, t.sizes().vec(), {}, t.scalar_type(), t.numel()};
  std::vector<std::int64_t> real, unit;  // a dimension of length one may stand anywhere
  for (std::int64_t d = 0; d < t.dim(); ++d) (t.size(d) > 1 ? real : unit).push_back(d);
  std::stable_sort(real.begin(), real.end(), [&](auto a, auto b) { return t.stride(a) > t.stride(b); });
  if (std::is_sorted(real.begin(), real.end())) {
    p.order.resize(static_cast<std::size_t>(t.dim()));
    std::iota(p.order.begin(), p.order.end(), 0);
  } else {
    p.order = std::move(real);
    p.order.insert(p.order.end(), unit.begin(), unit.end());
  }
  return p;
}

at::Tensor shaped(const at::Tensor& elements, const Parameter& p) {
  std::vector<std::int64_t> sizes, back(p.order.size());
  for (std::size_t d = 0; d < p.order.size(); ++d) {
    sizes.push_back(p.shape[static_cast<std::size_t>(p.order[d])]);
    back[static_cast<std::size_t>(p.order[d])] = static_cast<std::int64_t>(d);
  }
  return elements.view(sizes).permute(back);
}

std::unique_ptr<Parallel> make_parallel(const std::vector<Unit>& units, const ParallelOptions& options,
                                        const World& world, device::Device& device) {
  check_options(options, world);
  std::string model;
  for (const Unit& unit : units)
    for (const auto& [name, t] : unit.tensors)
      model +=
          unit.name + " " + name + " " + c10::str(t.sizes(), t.strides()) + (t.requires_grad() ? "\n" : " frozen\n");
  const std::vector<std::string> models = gather_texts(world, sha256(model));
  for (std::size_t r = 1; r < models.size(); ++r)
    if (models[r] != models[0])
      throw Error(ExitCode::internal, "Rank " + std::to_string(r) + " has another model than rank 0",
                  "start all ranks with the same program and configuration");
  if (options.strategy == "none" || options.strategy == "ddp")
    return std::make_unique<DataParallel>(units, options, world, device);
  return std::make_unique<Sharded>(units, options, world, device);
}

}  // namespace cirrus::dist
