// cirrus models: the models that are installed, and one model's card.
#include <nlohmann/json.hpp>
#include <set>

#include "apps/cirrus/verbs.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/run_options.h"
#include "enhance/model.h"

namespace cirrus::app {
namespace {

namespace fs = std::filesystem;

std::string summary(const std::string& name, const nlohmann::json& card) {
  const nlohmann::json training = card.value("training", nlohmann::json::object());
  return name + "   x" + std::to_string(card.value("factor", 0)) + "   " + card.value("network", "?") +
         "   trained on " + std::to_string(training.value("samples", std::int64_t{0})) + " samples of " +
         training.value("sky", "?");
}

}  // namespace

int models(const Arguments& arguments) {
  std::vector<std::string> names;
  RunOptions run;
  Options options(
      "cirrus models",
      "List the models there are, or show one model's card: factor, beams, training, validation figures, hash.");
  options.positionals("NAME", names, "model by name or file", 0, 1);
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  if (!names.empty()) {
    const fs::path path = enhance::find_model(names[0], 4);
    nlohmann::json card = enhance::read_card(path);
    card["name"] = path.stem().string();
    card["sha256"] = sha256_file(path);
    card["bytes"] = fs::file_size(path);
    log::print(card.dump(2));
    if (run.json) log::print_json(card.dump());
    return 0;
  }
  nlohmann::json list = nlohmann::json::array();
  std::set<std::string> seen;
  for (const fs::path& folder : enhance::model_folders()) {
    std::error_code error;
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".safetensors") files.insert(entry.path());
    for (const fs::path& file : files) {
      if (!seen.insert(file.stem().string()).second) continue;  // an earlier folder's model of that name wins
      try {
        const nlohmann::json card = enhance::read_card(file);
        log::print(summary(file.stem().string(), card));
        list.push_back({{"name", file.stem().string()},
                        {"path", file.string()},
                        {"factor", card.at("factor")},
                        {"network", card.at("network")},
                        {"training", card.at("training")},
                        {"sha256", sha256_file(file)}});
      } catch (const Error& e) {
        log::warning(e.what());
      } catch (const nlohmann::json::exception& e) {
        log::warning(file.string() + ": the model's metadata are incomplete: " + e.what());
      }
    }
  }
  if (list.empty()) log::warning("no models found; CIRRUS_MODELS names a folder to look in");
  if (run.json) log::print_json(nlohmann::json{{"models", list}}.dump());
  return 0;
}

}  // namespace cirrus::app
