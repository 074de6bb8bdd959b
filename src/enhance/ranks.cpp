// Waiting, agreeing, passing maps.
#include "enhance/ranks.h"

#include "base/errors.h"
#include "dist/process_group.h"

namespace cirrus::enhance {

MapGroup::MapGroup() : group_(std::make_shared<dist::ProcessGroup>()) {}
int MapGroup::rank() const { return group_->rank(); }
int MapGroup::size() const { return group_->size(); }

Ranks::Ranks(const dist::World& world, const device::Device& device)
    : world_(world), device_(&device), all_(maps_of(dist::all_ranks(world, "maps"))) {}

MapGroup Ranks::maps_of(const dist::Members& members) const {
  if (size() == 1) return {};
  const bool by_host = world_.launcher == "mpi";
  return {dist::make_group(world_, by_host ? device::cpu() : *device_, members), by_host ? nullptr : device_};
}

void Ranks::agree(const std::function<void()>& work) {
  if (size() == 1) return work();
  std::exception_ptr mine;
  std::string outcome;
  const auto failed = [&](ExitCode code, const char* what) {
    mine = std::current_exception();
    outcome = std::to_string(static_cast<int>(code)) + " " + what;
  };
  try {
    work();
  } catch (const Error& e) {
    failed(e.code(), e.what());
  } catch (const std::exception& e) {
    failed(ExitCode::internal, e.what());
  }
  meet();
  const std::vector<std::string> outcomes = dist::gather_texts(world_, outcome);
  for (int rank = 0; rank < size(); ++rank) {
    const std::string& text = outcomes[static_cast<std::size_t>(rank)];
    if (text.empty()) continue;
    if (rank == this->rank()) std::rethrow_exception(mine);
    const auto space = text.find(' ');
    throw Error(static_cast<ExitCode>(std::stoi(text)),
                (rank == 0 ? "" : "rank " + std::to_string(rank) + ": ") + text.substr(space + 1));
  }
}

dist::Members Ranks::neighbours(const char* what, int size) const {
  const int color = world_.rank / size, first = color * size;
  return {what + std::to_string(size), color, world_.rank - first, std::min(size, world_.size - first)};
}

MapGroup& Ranks::team(int size) {
  const auto found = teams_.find(size);
  if (found != teams_.end()) return found->second;
  return teams_[size] = maps_of(neighbours("maps of teams of ", size));
}

dist::ProcessGroup& Ranks::team_on_device(int size) {
  std::shared_ptr<dist::ProcessGroup>& group = teams_on_device_[size];
  if (!group) group = dist::make_group(world_, *device_, neighbours("strips of teams of ", size));
  return *group;
}

at::Tensor MapGroup::wire_for(std::int64_t pixels) const {
  if (device_ == nullptr) return at::empty({pixels}, at::kDouble);
  const bool whole = device_->capabilities().float64;
  return at::empty({whole ? pixels : 2 * pixels},
                   at::TensorOptions(device_->torch_device()).dtype(whole ? at::kDouble : at::kFloat));
}

/// As the group's tensors are. Where the device has no float64: a float32, and what it lacks.
at::Tensor MapGroup::wired(const at::Tensor& map) const {
  const at::Tensor flat = map.view(-1);
  if (device_ == nullptr) return flat;
  if (device_->capabilities().float64) return flat.to(device_->torch_device());
  const at::Tensor high = flat.to(at::kFloat), low = (flat - high.to(at::kDouble)).to(at::kFloat);
  return at::cat({high, low}).to(device_->torch_device());
}

void MapGroup::unwire(const at::Tensor& wire, const at::Tensor& map) const {
  if (device_ == nullptr) return;  // it was the map itself
  const at::Tensor host = wire.cpu();
  const std::int64_t n = map.numel();
  map.view(-1).copy_(host.scalar_type() == at::kDouble
                         ? host
                         : host.narrow(0, 0, n).to(at::kDouble) + host.narrow(0, n, n).to(at::kDouble));
}

void MapGroup::to_first(const at::Tensor& map, int owner) {
  if (owner == 0 || size() == 1) return;
  const bool sends = rank() == owner;
  const at::Tensor in = sends ? wired(map) : wire_for(0), out = !is_first()          ? wire_for(0)
                                                                : device_ == nullptr ? map.view(-1)
                                                                                     : wire_for(map.numel());
  std::vector<std::int64_t> from(static_cast<std::size_t>(size())), to = from;
  if (is_first()) from[static_cast<std::size_t>(owner)] = out.numel();
  if (sends) to[0] = in.numel();
  group_->exchange(out, from, in, to, "a member's map").wait();
  if (is_first()) unwire(out, map);
}

void MapGroup::from_first(const at::Tensor& map) {
  if (size() == 1) return;
  const at::Tensor wire = is_first() || device_ == nullptr ? wired(map) : wire_for(map.numel());
  group_->broadcast(wire, 0, "a map of all").wait();
  if (!is_first()) unwire(wire, map);
}

void MapGroup::put_together(const at::Tensor& map) {
  if (size() == 1) return;
  const at::Tensor wire = wired(map);
  group_->all_reduce(wire, dist::Reduce::sum, "the parts of a map").wait();
  unwire(wire, map);
}

}  // namespace cirrus::enhance
