// Evaluation: methods answer cases with known truth, every answer is scored, scores are averaged by mode and held
// against requirements. A method is any function, so that this file knows neither model nor sampler. The report for
// people is report.h.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "metrics/minkowski.h"
#include "metrics/score.h"

namespace cirrus::enhance {

/// What a method answers, in the map's unit.
struct Output {
  at::Tensor mean;                    ///< [s h, s w]
  std::optional<at::Tensor> members;  ///< [n, s h, s w]
  std::optional<at::Tensor> sample;   ///< [s h, s w]; without it member 0 is the sample
  double seconds = 0;                 ///< wall time of the method alone
  std::int64_t evaluations = 0;       ///< network evaluations a member; 0 for classical methods
};

using Method = std::function<Output(const metrics::Case&)>;

struct NamedMethod {
  std::string name;
  Method run;
};

/// bicubic, lanczos, spline or wiener as a method that times itself. Throws Error(usage) for another name.
NamedMethod baseline_method(const std::string& name);

/// One method's answer to one map.
struct Answer {
  std::string method;
  metrics::Score score;
  double seconds = 0;
  std::int64_t evaluations = 0;
  metrics::MinkowskiFunctionals shape;  ///< of the sample, or of the mean where there is none, at shape_thresholds()
  at::Tensor mean, sample, std;         ///< float32 for pictures; undefined where there is none or none was to be kept
};

struct EvaluatedMap {
  std::string name;
  std::string family = "-";  ///< kind of sky, for tables
  std::string unit;          ///< BUNIT, for pictures
  std::string mode;          ///< "block" or "beam"
  std::int64_t factor = 4;
  std::vector<Answer> answers;
  metrics::MinkowskiFunctionals shape;  ///< of the truth
  at::Tensor lr, truth;                 ///< float32 for pictures, undefined where none was to be kept
};

struct Evaluation {
  std::vector<EvaluatedMap> maps;
};

/// Thresholds of the Minkowski functionals in standard deviations of the truth in T above its mean: -2, -1.75, ..., 4.
std::vector<double> shape_thresholds();

/// A map before it is evaluated.
struct MapToEvaluate {
  std::string name, family = "-", unit;
  metrics::Case question;
};

/// Runs each method on the map and scores it. `keep_pictures` keeps the maps themselves (4 bytes a pixel, up to 4 maps
/// a method). Throws what the methods throw, and Error(bad_data) as metrics::score.
EvaluatedMap evaluate(const MapToEvaluate& map, const std::vector<NamedMethod>& methods, bool keep_pictures);

/// Means over all maps of one mode.
struct MethodMean {
  std::string mode, method;
  metrics::Score score;
  double seconds = 0, evaluations = 0;
  std::size_t maps = 0;
};

/// In order of appearance: first by mode, then by method.
std::vector<MethodMean> means(const Evaluation& evaluation);

/// {"maps": [{"name", "family", "mode", "factor", "methods": {NAME: {figures, "seconds", "evaluations"}}}],
///  "mean": {MODE: {NAME: {...}}}}; figures by the names of metrics::figures().
nlohmann::ordered_json to_json(const Evaluation& evaluation);

/// Means as text, one row a mode and method. Ends with a newline.
std::string table(const Evaluation& evaluation);

/// A bound on the mean of one figure over all maps of a mode.
struct Requirement {
  std::string mode, method, figure;
  std::optional<double> min, max;
};

/// Reads a TOML file of tables [MODE.METHOD] with lines FIGURE = {min = X, max = Y}. Figures are those of
/// metrics::figures() by name or alias, "seconds" and "evaluations". Throws Error(no_input), or Error(config) naming
/// file, line and the nearest known name.
std::vector<Requirement> read_requirements(const std::string& path);

/// One sentence for each requirement that is not met; none if all are. A figure that was not measured is not met.
std::vector<std::string> unmet(const Evaluation& evaluation, const std::vector<Requirement>& requirements);

}  // namespace cirrus::enhance
