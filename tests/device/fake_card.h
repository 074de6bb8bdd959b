// The environment in which programs see the stand-in for an Intel Gaudi card, and what it counted while they ran.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/cli/subprocess.h"

namespace cirrus::test {

inline const std::filesystem::path kFakeHpu = CIRRUS_FAKE_HPU;
using Variables = std::map<std::string, std::string>;

/// The module, the stand-in's package and its management library; `more` comes first.
inline Variables card(Variables more = {}) {
  const char* libraries = std::getenv("LD_LIBRARY_PATH");
  const std::string others = libraries == nullptr ? "" : std::string(":") + libraries;
  more.insert({{"CIRRUS_MODULE_PATH", CIRRUS_MODULES},
               {"CIRRUS_HPU_PLUGIN", (kFakeHpu / "habana_frameworks").string()},
               {"LD_LIBRARY_PATH", (kFakeHpu / "management").string() + others}});
  return more;
}

/// A program run on the card.
struct CardRun {
  Outcome outcome;
  nlohmann::json report;  ///< tests/device/fake_hpu/recorder.h

  std::int64_t count(const std::string& what) const { return report.at("counts").value(what, std::int64_t{0}); }
  std::int64_t operations(const std::string& name) const {
    return report.at("operations").value(name, std::int64_t{0});
  }
};

/// `memory`: bytes of the card; 0: what its generation has.
inline CardRun run_on_card(const std::filesystem::path& folder, const std::vector<std::string>& words,
                           std::int64_t memory = 0) {
  const std::filesystem::path file = folder / "report.json";
  std::filesystem::remove(file);
  Variables environment = card({{"CIRRUS_FAKE_HPU_REPORT", file.string()}});
  if (memory > 0) environment["CIRRUS_FAKE_HPU_MEMORY"] = std::to_string(memory);
  CardRun r;
  r.outcome = run("cirrus", words, {.folder = folder, .environment = environment});
  if (std::filesystem::exists(file)) r.report = nlohmann::json::parse(contents(file));
  return r;
}

}  // namespace cirrus::test
