// Which library of collectives a device has here, and whether all ranks can use it.
#include "dist/device_backend.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdlib>
#include <set>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/errors.h"
#include "base/log.h"
#include "device/module.h"
#include "dist/collective_library.h"
#include "dist/connection.h"
#include "dist/hccl.h"
#include "dist/staged_backend.h"

namespace cirrus::dist {
namespace {

/// Whether the user wants none of the libraries. Throws Error(config).
bool host_is_wanted() {
  const char* value = std::getenv("CIRRUS_COLLECTIVES");
  const std::string wanted = value == nullptr ? "" : value;
  if (!wanted.empty() && wanted != "host")
    throw Error(ExitCode::config, "CIRRUS_COLLECTIVES = '" + wanted + "' is not known",
                "set it to host, or unset it for the device's own library");
  return wanted == "host";
}

/// The library, ready for use; null, and why.
const CollectiveLibrary* find_library(const device::Device& device, std::string& reason) {
  const std::string name = device.capabilities().collective_backend;
  const std::string kind = c10::DeviceTypeName(device.torch_device().type(), true);
  if (host_is_wanted()) {
    reason = "CIRRUS_COLLECTIVES=host";
    return nullptr;
  }
  if (name.empty()) {
    reason = "the device has no library of collectives";
    return nullptr;
  }
  const CollectiveLibrary* library = nullptr;
  std::string plugin;
  if (name == "hccl") {
    library = load_hccl(reason);
    const auto package = reinterpret_cast<const char* (*)()>(device::module_symbol(kind, "cirrus_hpu_package"));
    if (package != nullptr) plugin = package();
  } else if (const void* entry = device::module_symbol(kind, "cirrus_collectives"); entry != nullptr) {
    library = reinterpret_cast<CollectiveEntry>(const_cast<void*>(entry))(kCollectivesAbi);
    if (library == nullptr) reason = "the module for " + kind + " belongs to another version of Cirrus";
  } else {
    reason = "the module for " + kind + " was built without " + name + " (its header was not found)";
  }
  if (library != nullptr) reason = library->prepare(plugin);
  return reason.empty() ? library : nullptr;
}

/// The first rank's reason that has one, with its name, on all ranks.
std::string agree(const World& world, const std::string& reason) {
  const std::vector<std::string> reasons = gather_texts(world, reason);
  for (std::size_t rank = 0; rank < reasons.size(); ++rank) {
    if (reasons[rank].empty()) continue;
    const bool everywhere = std::set(reasons.begin(), reasons.end()).size() == 1;
    return reasons[rank] + (everywhere ? "" : " (rank " + std::to_string(rank) + ")");
  }
  return "";
}

void tell_once(const std::string& reason) {
  static std::set<std::string> told;
  if (!told.insert(reason).second) return;
  if (reason.starts_with("CIRRUS_COLLECTIVES"))
    log::info("Collectives go over host memory: " + reason);
  else
    log::warning("Collectives go over host memory, which is slow: " + reason);
}

/// LibTorch's message without its backtrace, on one line.
std::string message_of(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  std::string text = error != nullptr ? error->what_without_backtrace() : e.what();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_device_backend(const World& world, const device::Device& device,
                                                      const Members& members) {
  static int groups = 0;  // the same on all ranks, who make the same groups: two of one name share no key of the store
  const std::string name = members.name + "#" + std::to_string(groups++);
  Connection& connection = *world.connection;
  std::string reason;
  const CollectiveLibrary* library = find_library(device, reason);
  reason = agree(world, reason);
  if (!reason.empty()) {
    tell_once(reason);
    return c10::make_intrusive<StagedBackend>(connection.host_backend(name, members.color, members.rank, members.size),
                                              device.host_options());
  }
  connection.watchdog().set_phase(std::string("connecting by ") + library->name);
  const auto seconds = std::chrono::milliseconds(static_cast<std::int64_t>(Watchdog::timeout() * 1000));
  c10::intrusive_ptr<c10d::Store> store = connection.meeting().connect();
  store->setTimeout(seconds);
  BackendRequest request{c10::make_intrusive<c10d::PrefixStore>(name + "/" + std::to_string(members.color), store),
                         members.rank,
                         members.size,
                         name,
                         device.torch_device(),
                         seconds + std::chrono::seconds(30)};  // our watchdog comes first: it says who is missing
  try {
    return library->make(request);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ExitCode::unavailable,
                std::string(library->name) + " cannot connect rank " + std::to_string(members.rank) + " of group " +
                    members.name + ", on " + world.host + ": " + message_of(e),
                "CIRRUS_COLLECTIVES=host does without it, slowly");
  }
}

bool dispatches_collectives(const at::Device& device) {
  const auto op = c10::Dispatcher::singleton().findSchema({"c10d::allreduce_", ""});
  const c10::DispatchKey key = c10::computeDispatchKey(std::nullopt, std::nullopt, device);
  return op && op->hasKernelForDispatchKey(key);
}

}  // namespace cirrus::dist
