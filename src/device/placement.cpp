// Local ranks to cards.
#include "device/placement.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <sstream>
#include <vector>

#include "base/errors.h"
#include "device/device.h"

namespace cirrus::device {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// "3,2" as entries.
std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> entries;
  std::istringstream in(text);
  for (std::string entry; std::getline(in, entry, ',');) entries.push_back(entry);
  return entries;
}

/// The card's number for this process, among `cards` of them.
int card_of(const Place& place, int cards) {
  const std::string text = variable("CIRRUS_DEVICE_ORDER");
  if (text.empty()) return place.local_rank;
  const auto refuse = [&](const std::string& why) -> Error {
    return {ExitCode::config, "CIRRUS_DEVICE_ORDER = '" + text + "' " + why,
            "name each card once, as 3,2,1,0, or unset it"};
  };
  std::vector<int> order;
  for (const std::string& entry : list_of(text)) {
    int card = -1;
    const auto [end, failure] = std::from_chars(entry.data(), entry.data() + entry.size(), card);
    if (failure != std::errc() || end != entry.data() + entry.size() || card < 0)
      throw refuse("is no list of card numbers");
    if (card >= cards) throw refuse("names card " + entry + ", and this host has " + std::to_string(cards));
    order.push_back(card);
  }
  if (std::set(order.begin(), order.end()).size() != order.size()) throw refuse("names a card twice");
  if (static_cast<int>(order.size()) < place.local_size)
    throw refuse("names " + std::to_string(order.size()) + " cards for " + std::to_string(place.local_size) +
                 " processes on this host");
  return order[static_cast<std::size_t>(place.local_rank)];
}

/// What the plug-in reads when it is loaded. The ranks are those of the run, whatever else the environment says.
void tell_plugin(const Place& place) {
  const auto set = [](const char* name, int value) { setenv(name, std::to_string(value).c_str(), 1); };
  set("RANK", place.rank);
  set("ID", place.rank);
  set("WORLD_SIZE", place.size);
  set("LOCAL_RANK", place.local_rank);
  set("LOCAL_WORLD_SIZE", place.local_size);
  if (!variable("HLS_MODULE_ID").empty()) return;
  const std::string visible = variable("HABANA_VISIBLE_MODULES");
  const std::vector<std::string> modules = visible == "all" ? std::vector<std::string>() : list_of(visible);
  if (modules.empty()) {  // the plug-in takes any free card, unless the user wants certain ones
    constexpr int kModulesOfHost = 8;
    if (!variable("CIRRUS_DEVICE_ORDER").empty()) set("HLS_MODULE_ID", card_of(place, kModulesOfHost));
    return;
  }
  const int cards = static_cast<int>(modules.size());
  if (place.local_size > cards)
    throw Error(ExitCode::unavailable,
                "HABANA_VISIBLE_MODULES=" + visible + " names " + std::to_string(cards) + " card(s), and " +
                    std::to_string(place.local_size) + " processes run on this host",
                "start one process a card, or list more cards");
  setenv("HLS_MODULE_ID", modules[static_cast<std::size_t>(card_of(place, cards))].c_str(), 1);
}

/// As open_device() finds it; null for a name it does not know.
const Backend* find_backend(const std::string& kind) {
  const Backend* found = nullptr;
  const auto score = [](const Backend* b) { return b == nullptr || b->count() == 0 ? -1 : b->score(); };
  for (const Backend* b : backends())
    if (kind == "auto" ? score(b) > score(found) : b->kind() == kind) found = b;
  return found;
}

}  // namespace

std::string choose_device(const std::string& wanted, const Place& place) {
  const std::string kind = wanted.substr(0, wanted.find(':'));
  if (place.size == 1 || kind == "cpu") return wanted;
  if (kind != wanted) {
    if (place.local_size == 1) return wanted;
    throw Error(ExitCode::usage,
                "--device " + wanted + " names one card, and " + std::to_string(place.local_size) +
                    " processes run on this host",
                "use --device " + kind +
                    ": each process takes the card of its local rank; CIRRUS_DEVICE_ORDER=3,2,1,0 "
                    "changes which");
  }
  const Backend* backend = find_backend(kind);
  if (backend == nullptr || backend->count() == 0) return wanted;  // open_device() says what is wrong
  if (backend->kind() == "hpu") tell_plugin(place);
  const int cards = backend->count();
  if (cards == 1) return backend->kind();
  if (place.local_size > cards)
    throw Error(ExitCode::unavailable,
                std::to_string(place.local_size) + " processes on this host, and " + std::to_string(cards) + " " +
                    backend->kind() + " cards",
                "start one process a card: mpiexec -ppn " + std::to_string(cards) + ", srun --ntasks-per-node=" +
                    std::to_string(cards) + ", torchrun --nproc-per-node=" + std::to_string(cards));
  return backend->kind() + ":" + std::to_string(card_of(place, cards));
}

}  // namespace cirrus::device
