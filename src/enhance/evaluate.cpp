// Running, averaging, and requirements.
#include "enhance/evaluate.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/errors.h"
#include "base/nearest.h"
#include "base/option_value.h"
#include "metrics/map.h"
#include "metrics/table.h"
#include "metrics/transform.h"

namespace cirrus::enhance {
namespace {

at::Tensor picture(const at::Tensor& map) { return map.to(at::kCPU, at::kFloat).contiguous(); }

nlohmann::ordered_json figures_json(const metrics::Score& score, double seconds,
                                    const nlohmann::ordered_json& evaluations) {
  nlohmann::ordered_json json = metrics::to_json(score);
  json["seconds"] = seconds;
  json["evaluations"] = evaluations;
  return json;
}

/// All names a requirement may use.
std::vector<std::string> figure_names() {
  std::vector<std::string> names = {"seconds", "evaluations"};
  for (const metrics::Figure& figure : metrics::figures()) {
    names.emplace_back(figure.name);
    if (!figure.alias.empty()) names.emplace_back(figure.alias);
  }
  return names;
}

std::optional<double> figure_of(const MethodMean& mean, const std::string& name) {
  if (name == "seconds") return mean.seconds;
  if (name == "evaluations") return mean.evaluations;
  const metrics::Figure* figure = metrics::find_figure(name);
  return figure ? mean.score.*figure->value : std::nullopt;
}

std::vector<std::string> split_dots(const std::string& key) {
  std::vector<std::string> parts = {""};
  for (const char c : key) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.5g", value);
  return text.data();
}

}  // namespace

NamedMethod baseline_method(const std::string& name) {
  const auto known = metrics::baseline_names();
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw Error(ExitCode::usage, "no baseline is called " + name,
                "nearest: " + nearest_name(name, {known.begin(), known.end()}));
  return {name, [name](const metrics::Case& question) {
            const double start = steady_seconds();
            Output output;
            output.mean = metrics::baseline(name, question);
            output.seconds = steady_seconds() - start;
            return output;
          }};
}

std::vector<double> shape_thresholds() {
  std::vector<double> thresholds;
  for (int i = 0; i <= 24; ++i) thresholds.push_back(-2 + 0.25 * i);
  return thresholds;
}

EvaluatedMap evaluate(const MapToEvaluate& map, const std::vector<NamedMethod>& methods, bool keep_pictures) {
  const metrics::Case question = metrics::checked(map.question);
  const auto transform = metrics::Transform::of(question.lr);
  const at::Tensor truth = transform.forward(question.truth), deviation = truth - truth.mean();
  const double sigma = metrics::rms(deviation), middle = truth.mean().item<double>();
  const auto shape_of = [&](const at::Tensor& output) {
    const at::Tensor standardised = (transform.forward(output.to(at::kDouble)) - middle) / sigma;
    return metrics::minkowski_functionals(standardised, shape_thresholds());
  };
  EvaluatedMap evaluated{map.name, map.family, map.unit, question.block_mode() ? "block" : "beam", question.factor, {},
                         {},       {},         {}};
  evaluated.shape = shape_of(question.truth);
  if (keep_pictures) {
    evaluated.lr = picture(question.lr);
    evaluated.truth = picture(question.truth);
  }
  for (const NamedMethod& method : methods) {
    const Output output = method.run(question);
    Answer answer;
    answer.method = method.name;
    answer.score = metrics::score(question, output.mean, output.members, output.sample);
    answer.seconds = output.seconds;
    answer.evaluations = output.evaluations;
    std::optional<at::Tensor> sample = output.sample;
    if (!sample && output.members && output.members->size(0) > 0) sample = (*output.members)[0];
    answer.shape = shape_of(sample ? *sample : output.mean);
    if (keep_pictures) {
      answer.mean = picture(output.mean);
      if (sample) answer.sample = picture(*sample);
      if (output.members && output.members->size(0) > 1) answer.std = picture(output.members->to(at::kDouble).std(0));
    }
    evaluated.answers.push_back(std::move(answer));
  }
  return evaluated;
}

std::vector<MethodMean> means(const Evaluation& evaluation) {
  std::vector<std::string> modes;
  for (const EvaluatedMap& map : evaluation.maps)
    if (std::find(modes.begin(), modes.end(), map.mode) == modes.end()) modes.push_back(map.mode);
  std::vector<MethodMean> all;
  for (const std::string& mode : modes) {
    const size_t first = all.size();
    std::vector<std::vector<metrics::Score>> scores;
    for (const EvaluatedMap& map : evaluation.maps) {
      if (map.mode != mode) continue;
      for (const Answer& answer : map.answers) {
        size_t i = first;
        while (i < all.size() && all[i].method != answer.method) ++i;
        if (i == all.size()) {
          all.push_back({mode, answer.method, {}, 0, 0, 0});
          scores.emplace_back();
        }
        all[i].seconds += answer.seconds;
        all[i].evaluations += static_cast<double>(answer.evaluations);
        ++all[i].maps;
        scores[i - first].push_back(answer.score);
      }
    }
    for (size_t i = first; i < all.size(); ++i) {
      all[i].score = metrics::mean_score(scores[i - first]);
      all[i].seconds /= static_cast<double>(all[i].maps);
      all[i].evaluations /= static_cast<double>(all[i].maps);
    }
  }
  return all;
}

nlohmann::ordered_json to_json(const Evaluation& evaluation) {
  nlohmann::ordered_json json;
  json["maps"] = nlohmann::ordered_json::array();
  for (const EvaluatedMap& map : evaluation.maps) {
    nlohmann::ordered_json methods = nlohmann::ordered_json::object();
    for (const Answer& answer : map.answers)
      methods[answer.method] = figures_json(answer.score, answer.seconds, answer.evaluations);
    json["maps"].push_back(
        {{"name", map.name}, {"family", map.family}, {"mode", map.mode}, {"factor", map.factor}, {"methods", methods}});
  }
  json["mean"] = nlohmann::ordered_json::object();
  for (const MethodMean& mean : means(evaluation))
    json["mean"][mean.mode][mean.method] = figures_json(mean.score, mean.seconds, mean.evaluations);
  return json;
}

std::string table(const Evaluation& evaluation) {
  std::vector<metrics::Row> rows;
  for (const MethodMean& mean : means(evaluation)) rows.push_back({mean.mode, mean.method, mean.score});
  return metrics::table(rows, {.first = "mode", .second = "method", .with_means = false});
}

std::vector<Requirement> read_requirements(const std::string& path) {
  std::vector<Requirement> requirements;
  for (const ConfigEntry& entry : read_config(path)) {
    const auto fail = [&](const std::string& what, const std::string& remedy) {
      throw Error(ExitCode::config, path + ", line " + std::to_string(entry.line) + ": " + what, remedy);
    };
    const std::vector<std::string> key = split_dots(entry.key);
    if (key.size() != 4 || (key[3] != "min" && key[3] != "max"))
      fail(entry.key + " is no requirement", "write [block.mean] and below it rT = {max = 0.83}");
    if (key[0] != "block" && key[0] != "beam") fail("no mode is called " + key[0], "block or beam");
    const std::vector<std::string> known = figure_names();
    if (std::find(known.begin(), known.end(), key[2]) == known.end())
      fail("no figure is called " + key[2], "nearest: " + nearest_name(key[2], known));
    if (entry.value.kind != RawValue::Kind::real && entry.value.kind != RawValue::Kind::integer)
      fail(entry.key + " is no number", "write a number, as in {max = 0.83}");
    auto same = std::find_if(requirements.begin(), requirements.end(), [&](const Requirement& r) {
      return r.mode == key[0] && r.method == key[1] && r.figure == key[2];
    });
    if (same == requirements.end()) same = requirements.insert(same, {key[0], key[1], key[2], {}, {}});
    (key[3] == "min" ? same->min : same->max) = std::stod(entry.value.items.front());
  }
  if (requirements.empty())
    throw Error(ExitCode::config, path + " holds no requirement", "write [block.mean] and below it rT = {max = 0.83}");
  return requirements;
}

std::vector<std::string> unmet(const Evaluation& evaluation, const std::vector<Requirement>& requirements) {
  const std::vector<MethodMean> all = means(evaluation);
  std::vector<std::string> sentences;
  for (const Requirement& required : requirements) {
    const std::string name = required.mode + " " + required.method + " " + required.figure;
    const auto mean = std::find_if(all.begin(), all.end(), [&](const MethodMean& m) {
      return m.mode == required.mode && m.method == required.method;
    });
    const std::optional<double> value = mean == all.end() ? std::nullopt : figure_of(*mean, required.figure);
    if (!value) {
      sentences.push_back(name + " was not measured");
      continue;
    }
    // Written so that NaN meets nothing.
    if (required.max && !(*value <= *required.max))
      sentences.push_back(name + " is " + number(*value) + ", at most " + number(*required.max) + " is required");
    if (required.min && !(*value >= *required.min))
      sentences.push_back(name + " is " + number(*value) + ", at least " + number(*required.min) + " is required");
  }
  return sentences;
}

}  // namespace cirrus::enhance
