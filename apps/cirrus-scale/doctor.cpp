// cirrus-scale doctor: whether the devices of this machine compute what they should.
#include "scale/doctor.h"

#include <ATen/Parallel.h>

#include <nlohmann/json.hpp>

#include "apps/cirrus-scale/verbs.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/run_options.h"
#include "device/listing.h"

namespace cirrus::scale_app {
namespace {

using nlohmann::json;

/// One line a check: what was found, in the units people compare.
void tell(const json& report) {
  log::print(report.at("device").get<std::string>() + "  " + report.at("name").get<std::string>());
  for (const auto& [what, version] : report.at("versions").items())
    log::print("  " + what + " " + version.get<std::string>());
  for (const json& check : report.at("checks")) {
    char line[256];
    std::snprintf(line, sizeof line, "  %-22s %-6s %6.1f s", check.at("name").get<std::string>().c_str(),
                  check.at("passed") ? "ok" : "FAILED", check.at("seconds").get<double>());
    std::string text = line;
    const auto add = [&](const char* key, const char* format, double scale) {
      if (!check.contains(key)) return;
      std::snprintf(line, sizeof line, format, check.at(key).get<double>() * scale);
      text += line;
    };
    add("error", "   error %.1e", 1);
    add("tflops", "   %.3g TFLOP/s", 1);
    add("bytes", "   %.3g GB written and read", 1e-9);
    if (check.contains("detail")) text += "   " + check.at("detail").get<std::string>();
    log::print(text);
  }
}

}  // namespace

int doctor(const Arguments& arguments) {
  RunOptions run;
  std::string out;
  Options options(
      "cirrus-scale doctor",
      "Test the devices of this machine: matrix products, convolutions, a training step against double precision, "
      "memory. Under a minute a device. Exit code 1 if one fails; devices that are missing or in use are listed "
      "with the reason.");
  options.group("Output");
  options.add("output", out, "also write the report, one JSON object, to this file").short_flag('o').metavar("FILE");
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  if (out == "-") throw Error(ExitCode::usage, "-o - names no file", "use --json for the report on standard output");
  if (!out.empty()) require_writable_output(out, run.overwrite);
  at::set_num_threads(resolve_threads(run.threads));

  json report{{"format", "cirrus-doctor/1"}, {"time", utc_now()}, {"host", scale::describe_host()}};
  report["devices"] = json::array();
  report["missing"] = json::array();
  bool passed = true;
  const auto examine = [&](device::Device& device, const std::string& id) {
    if (run.dry_run) return log::print("would test " + id + "  " + device.name());
    log::info("Testing " + id);
    json one = scale::examine(device, id, run.dtype);
    passed = passed && one.at("passed").get<bool>();
    tell(one);
    report["devices"].push_back(std::move(one));
  };
  if (run.device != "auto") {
    examine(*device::open_device(run.device), run.device);
  } else {
    device::visit_devices([&](const std::string& id, device::Device* device, const std::string& reason) {
      std::string why = reason;
      try {
        if (device != nullptr) return examine(*device, id);
      } catch (const Error& e) {
        if (e.code() != ExitCode::unavailable) throw;
        why = e.what();
      }
      report["missing"].push_back({{"device", id}, {"reason", why}});
      log::print(id + "  not available: " + why);
    });
  }
  if (run.dry_run) return 0;
  report["passed"] = passed && !report["devices"].empty();
  if (!out.empty()) write_text(out, report.dump(1) + "\n", run.overwrite);
  if (run.json) log::print_json(report.dump());
  if (report["devices"].empty())
    throw Error(ExitCode::unavailable, "No device could be tested", "the lines above say why");
  return passed ? 0 : 1;
}

}  // namespace cirrus::scale_app
