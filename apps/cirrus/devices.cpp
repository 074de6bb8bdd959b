// cirrus devices: what can run here, and for what cannot: why.
#include <nlohmann/json.hpp>

#include "apps/cirrus/verbs.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/run_options.h"
#include "device/device.h"

namespace cirrus::app {
namespace {

/// The device, or null and the reason: it may be in use, which shows when it is opened.
std::unique_ptr<device::Device> open(const device::Backend& backend, int index, std::string& reason) {
  try {
    return backend.open(index);
  } catch (const Error& e) {
    reason = e.what();
  } catch (const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    reason = text.substr(0, text.find('\n'));
  }
  return nullptr;
}

}  // namespace

int devices(const Arguments& arguments) {
  RunOptions run;
  Options options("cirrus devices",
                  "List the devices that can run here, with memory and number formats, and why others cannot.");
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  nlohmann::json list = nlohmann::json::array();
  for (const device::Backend* backend : device::backends()) {
    if (backend->count() == 0) {
      list.push_back({{"device", backend->kind()}, {"available", false}, {"reason", backend->why_not()}});
      log::print(backend->kind() + "     not available: " + backend->why_not());
    }
    for (int i = 0; i < backend->count(); ++i) {
      const std::string id = backend->kind() == "cpu" ? "cpu" : backend->kind() + ":" + std::to_string(i);
      std::string reason;
      const auto device = open(*backend, i, reason);
      if (!device) {
        list.push_back({{"device", id}, {"available", false}, {"reason", reason}});
        log::print(id + "     not available: " + reason);
        continue;
      }
      std::vector<std::string> dtypes;
      std::string shown;
      for (const at::ScalarType t : device->capabilities().dtypes) {
        dtypes.push_back(device::dtype_name(t));
        shown += (shown.empty() ? "" : ", ") + dtypes.back();
      }
      const device::MemoryStatistics memory = device->memory();
      nlohmann::json versions = nlohmann::json::object();
      std::string known;
      for (const auto& [what, version] : device->versions()) {
        versions[what] = version;
        known += (known.empty() ? "" : ", ") + what + " " + version;
      }
      list.push_back({{"device", id},
                      {"available", true},
                      {"name", device->name()},
                      {"memory_bytes", memory.total},
                      {"memory_available_bytes", memory.available},
                      {"dtypes", dtypes},
                      {"versions", versions}});
      char gigabytes[32];
      std::snprintf(gigabytes, sizeof(gigabytes), "%.1f GB", static_cast<double>(memory.total) / 1e9);
      log::print(id + "     " + device->name() + ", " + gigabytes + ", " + shown +
                 (known.empty() ? "" : " (" + known + ")"));
    }
  }
  if (run.json) log::print_json(nlohmann::json{{"devices", list}}.dump());
  return 0;
}

}  // namespace cirrus::app
