// cirrus devices: what can run here, and for what cannot: why.
#include <nlohmann/json.hpp>

#include "apps/cirrus/verbs.h"
#include "base/log.h"
#include "base/run_options.h"
#include "device/listing.h"

namespace cirrus::app {
int devices(const Arguments& arguments) {
  RunOptions run;
  Options options("cirrus devices",
                  "List the devices that can run here, with memory and number formats, and why others cannot.");
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  nlohmann::json list = nlohmann::json::array();
  const device::Visit list_one = [&](const std::string& id, device::Device* device, const std::string& reason) {
    std::string line = id;
    line.resize(std::max<std::size_t>(8, line.size() + 1), ' ');
    if (device == nullptr) {
      list.push_back({{"device", id}, {"available", false}, {"reason", reason}});
      return log::print(line + "not available: " + reason);
    }
    nlohmann::json dtypes = nlohmann::json::array(), versions = nlohmann::json::object();
    const device::MemoryStatistics memory = device->memory();
    char gigabytes[32];
    std::snprintf(gigabytes, sizeof(gigabytes), ", %.1f GB", static_cast<double>(memory.total) / 1e9);
    line += device->name() + gigabytes;
    for (const at::ScalarType t : device->capabilities().dtypes) {
      dtypes.push_back(device::dtype_name(t));
      line += ", " + device::dtype_name(t);
    }
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
    log::print(line + (known.empty() ? "" : " (" + known + ")"));
  };
  if (run.device == "auto")
    device::visit_devices(list_one);
  else
    list_one(run.device, device::open_device(run.device).get(), "");
  if (run.json) log::print_json(nlohmann::json{{"devices", list}}.dump());
  return 0;
}

}  // namespace cirrus::app
