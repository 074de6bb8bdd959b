// Waiting, agreeing, passing maps.
#include "enhance/ranks.h"

#include <chrono>
#include <thread>

#include "base/errors.h"
#include "base/signals.h"
#include "dist/connection.h"

namespace cirrus::enhance {

Ranks::Ranks(const dist::World& world, const device::Device& device)
    : world_(world), device_(&device), through_device_(world.launcher != "mpi") {
  if (size() == 1) return;
  maps_ = dist::make_group(world_, through_device_ ? device : device::cpu(), dist::all_ranks(world_, "maps"));
}

void Ranks::meet() {
  signals::check_interrupt();
  if (size() == 1) return;
  c10d::Store& store = *world_.connection->store();
  const auto key = [](std::uint64_t number, const char* what) {
    return "meeting/" + std::to_string(number) + "/" + what;
  };
  const std::uint64_t number = meetings_++;
  if (store.add(key(number, "here"), 1) == size()) store.set(key(number, "all"), std::vector<std::uint8_t>{1});
  using namespace std::chrono_literals;
  for (auto pause = 1ms; !store.check({key(number, "all")}); pause = std::min<std::chrono::milliseconds>(2 * pause, 50ms)) {
    std::this_thread::sleep_for(pause);
    signals::check_interrupt();
  }
  if (!is_lead() || number == 0) return;
  for (const char* what : {"here", "all"}) store.deleteKey(key(number - 1, what));  // all have left that one
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

at::Tensor Ranks::wire_for(std::int64_t pixels) const {
  if (!through_device_) return at::empty({pixels}, at::kDouble);
  const bool whole = device_->capabilities().float64;
  return at::empty({whole ? pixels : 2 * pixels},
                   at::TensorOptions(device_->torch_device()).dtype(whole ? at::kDouble : at::kFloat));
}

/// As the group's tensors are. Where the device has no float64: a float32, and what it lacks.
at::Tensor Ranks::wired(const at::Tensor& map) const {
  const at::Tensor flat = map.contiguous().view(-1);
  if (!through_device_) return flat;
  if (device_->capabilities().float64) return flat.to(device_->torch_device());
  const at::Tensor high = flat.to(at::kFloat), low = (flat - high.to(at::kDouble)).to(at::kFloat);
  return at::cat({high, low}).to(device_->torch_device());
}

void Ranks::unwire(const at::Tensor& wire, const at::Tensor& map) const {
  const at::Tensor host = wire.cpu(), flat = map.view(-1);
  if (host.scalar_type() == at::kDouble) {
    if (host.data_ptr() != flat.data_ptr()) flat.copy_(host);
    return;
  }
  const std::int64_t n = flat.numel();
  flat.copy_(host.narrow(0, 0, n).to(at::kDouble) + host.narrow(0, n, n).to(at::kDouble));
}

void Ranks::to_lead(const at::Tensor& map, int owner) {
  if (owner == 0 || size() == 1) return;
  const bool sends = rank() == owner, receives = is_lead();
  const at::Tensor in = sends ? wired(map) : wire_for(0);
  const bool direct = receives && !through_device_ && map.is_contiguous();
  const at::Tensor out = direct ? map.view(-1) : wire_for(receives ? map.numel() : 0);
  std::vector<std::int64_t> from(static_cast<std::size_t>(size())), to = from;
  if (receives) from[static_cast<std::size_t>(owner)] = out.numel();
  if (sends) to[0] = in.numel();
  maps_->exchange(out, from, in, to, "a member's map").wait();
  if (receives) unwire(out, map);
}

void Ranks::from_lead(const at::Tensor& map) {
  if (size() == 1) return;
  const at::Tensor wire = is_lead() ? wired(map) : wire_for(map.numel());
  maps_->broadcast(wire, 0, "the lead's map").wait();
  if (!is_lead()) unwire(wire, map);
}

dist::ProcessGroup& Ranks::team(int size) {
  std::shared_ptr<dist::ProcessGroup>& group = teams_[size];
  if (!group) {
    const int color = world_.rank / size, first = color * size;
    group = dist::make_group(world_, *device_,
                             {"strips of " + std::to_string(size), color, world_.rank - first,
                              std::min(size, world_.size - first)});
  }
  return *group;
}

}  // namespace cirrus::enhance
