// Meeting at a store of rank 0, and what is built upon it.
#include "dist/connection.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/errors.h"
#include "base/first_line.h"
#include "dist/mpi_backend.h"
#include "dist/seconds.h"
#include "dist/store_backend.h"

namespace cirrus::dist {
namespace {

using namespace std::chrono_literals;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::chrono::milliseconds rendezvous_timeout() {
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(seconds_from("CIRRUS_RENDEZVOUS_TIMEOUT", 60, 1e6) * 1000));
}

c10::intrusive_ptr<c10d::Store> tcp_store(const std::string& host, int port, bool serve,
                                          std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = serve;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  } catch (const std::exception& e) {
    if (std::string(e.what()).find("libuv") == std::string::npos) throw;
    options.useLibUV = false;  // a LibTorch that was built without it
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  }
}

/// Addresses of this host that others may reach: those of interfaces that are up, the loopback only if all ranks are
/// here.
std::string own_addresses(bool one_host) {
  if (one_host) return "127.0.0.1";
  std::string out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return out;
  for (const ifaddrs* a = list; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || a->ifa_addr->sa_family != AF_INET) continue;
    if ((a->ifa_flags & IFF_LOOPBACK) != 0 || (a->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(a->ifa_addr)->sin_addr, text, sizeof text);
    out += std::string(out.empty() ? "" : " ") + text;
  }
  freeifaddrs(list);
  return out;
}

/// Rank 0 opens a store at a port of its own and tells by MPI where.
Rendezvous meet_by_mpi(const World& world, bool one_host) {
  Rendezvous r;
  r.host = "127.0.0.1";
  std::string told;
  if (world.is_lead()) {
    r.store = tcp_store(r.host, 0, true, rendezvous_timeout());
    r.port = dynamic_cast<c10d::TCPStore&>(*r.store).getPort();
    const std::string chosen = variable("CIRRUS_MASTER_ADDR");
    told = std::to_string(r.port) + " " + (chosen.empty() ? own_addresses(one_host) : chosen);
  }
  told = mpi_broadcast(told);
  if (world.is_lead()) return r;
  std::istringstream in(told);
  in >> r.port;
  std::string tried;
  while (in >> r.host) {
    try {
      r.store = tcp_store(r.host, r.port, false, 5s);
      r.store->setTimeout(rendezvous_timeout());
      return r;
    } catch (const std::exception& e) {
      tried += (tried.empty() ? "" : "; ") + r.host + ": " + first_line(e);
    }
  }
  throw Error(ExitCode::unavailable,
              "Rank " + std::to_string(world.rank) + " on " + world.host + " cannot reach rank 0's port " +
                  std::to_string(r.port) + " (" + tried + ")",
              "open the network between the hosts, or set CIRRUS_MASTER_ADDR to rank 0's address on it");
}

Rendezvous meet_at_master(const World& world) {
  Rendezvous r;
  r.host = variable("MASTER_ADDR");
  const std::string port = variable("MASTER_PORT");
  r.port = port.empty() ? c10d::TCPStoreOptions::kDefaultPort : std::atoi(port.c_str());
  if (r.port < 1 || r.port > 65535)
    throw Error(ExitCode::unavailable, "MASTER_PORT = '" + port + "' is not a port", "use a number from 1024 to 65535");
  // torchrun's agent already serves a store there, and keeps it across restarts.
  const bool agent = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  r.prefix = "cirrus/" + variable("TORCHELASTIC_RESTART_COUNT");
  try {
    r.store = tcp_store(r.host, r.port, world.is_lead() && !agent, rendezvous_timeout());
  } catch (const std::exception& e) {
    throw Error(ExitCode::unavailable,
                "Rank " + std::to_string(world.rank) + " on " + world.host + " cannot " +
                    (world.is_lead() && !agent ? "serve" : "reach") + " MASTER_ADDR:MASTER_PORT = " + r.host + ":" +
                    std::to_string(r.port) + ": " + first_line(e),
                "MASTER_ADDR must be the host of rank 0, the port the same everywhere and free");
  }
  r.store = c10::make_intrusive<c10d::PrefixStore>(r.prefix, r.store);
  return r;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> Rendezvous::connect() const {
  auto plain = tcp_store(host, port, false, 10s);
  if (prefix.empty()) return plain;
  return c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(plain));
}

std::vector<std::string> Rendezvous::exchange(const std::string& name, int rank, int size,
                                              const std::string& text) const {
  const auto key = [&](int r) { return name + "/" + std::to_string(r); };
  store->set(key(rank), std::vector<std::uint8_t>(text.begin(), text.end()));
  std::vector<std::string> all;
  const auto end = std::chrono::steady_clock::now() + rendezvous_timeout();
  std::string missing;
  for (int r = 0; r < size; ++r) {
    while (!store->check({key(r)}) && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(20ms);
    if (!store->check({key(r)})) {
      missing += (missing.empty() ? "" : ", ") + std::to_string(r);
      continue;
    }
    const auto bytes = store->get(key(r));
    all.emplace_back(bytes.begin(), bytes.end());
  }
  if (!missing.empty())
    throw Error(ExitCode::unavailable,
                "Of " + std::to_string(size) + " ranks these did not come within " +
                    std::to_string(rendezvous_timeout().count() / 1000) + " s: " + missing,
                "see whether they started; CIRRUS_RENDEZVOUS_TIMEOUT sets how long to wait");
  return all;
}

Rendezvous meet(const World& world, const Launch& launch) {
  if (world.launcher != "mpi") return meet_at_master(world);
  return meet_by_mpi(world, launch.local_size == world.size);
}

c10::intrusive_ptr<c10d::Backend> Connection::host_backend(const std::string& name, int color, int rank, int size) {
  if (mpi_) return make_mpi_backend(color, rank);
  return make_store_backend(meeting_.connect(), name + "/" + std::to_string(color), rank, size);
}

void Connection::open_control(const World& world) {
  control_ = std::make_shared<ProcessGroup>(host_backend("control", 0, world.rank, world.size), "agreements", this);
}

void Connection::close(int rank, int size) {
  control_.reset();
  watchdog_.reset();
  try {
    meeting_.store->add("left", 1);
    if (rank != 0) return;
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (meeting_.store->add("left", 0) < size && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(5ms);
  } catch (const std::exception&) {  // who served it has gone, in order or not
  }
}

}  // namespace cirrus::dist
