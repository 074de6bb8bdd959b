// The published times and the fit.
#include "scale/plan_published.h"

#include <cmath>

#include "base/errors.h"

namespace cirrus::scale {

const std::vector<PublishedRun>& published_runs() {
  static const std::vector<PublishedRun> runs{
      {"llama-3.1-8b", "gaudi1", "ddp", {{1, 246}, {2, 137}, {4, 64}, {6, 42}, {8, 31}}},
      {"llama-3.1-8b", "gaudi2", "ddp", {{1, 78}, {2, 45}, {4, 20}, {6, 16}, {8, 11}}},
      {"llama-3.1-8b", "gaudi3", "ddp", {{1, 36}, {2, 21}, {4, 11}, {6, 8}, {8, 7}}},
      {"gemma2-27b", "gaudi2", "ddp", {{1, 138}, {2, 73}, {4, 37}, {6, 25}, {8, 20}}},
      {"gemma2-27b", "gaudi2", "zero3", {{2, 239}, {4, 103}, {6, 68}, {8, 53}}},
      {"gemma2-27b", "gaudi2", "fsdp", {{2, 463}, {4, 147}, {6, 90}, {8, 65}}},
      {"llama-3.3-70b", "gaudi2", "zero3", {{4, 162}, {6, 98}, {8, 76}}},
      {"llama-3.3-70b", "gaudi2", "fsdp", {{4, 306}, {6, 192}, {8, 136}}},
  };
  return runs;
}

double published_sr3_rate(const std::string& device) {
  // Minutes for 40,000 images.
  static const std::vector<std::pair<std::string, double>> minutes{{"gaudi1", 1440}, {"gaudi2", 350},  {"gaudi3", 276},
                                                                   {"v100-16", 750}, {"v100-32", 750}, {"a100-40", 305},
                                                                   {"a100-80", 305}, {"h100-80", 132}};
  for (const auto& [name, m] : minutes)
    if (name == device) return 40'000 / (60 * m);
  return 0;
}

SlowdownFit fit_slowdown(const std::string& strategy) {
  const auto run = [](const std::string& which) -> const PublishedRun& {
    for (const PublishedRun& r : published_runs())
      if (r.model == "gemma2-27b" && r.strategy == which) return r;
    throw Error(ExitCode::internal, "No published times of " + which);
  };
  const PublishedRun &whole = run("ddp"), &sharded = run(strategy);
  const auto whole_at = [&](int n) {
    for (const auto& [cards, m] : whole.minutes)
      if (cards == n) return m;
    throw Error(ExitCode::internal, "No published time of data parallel on " + std::to_string(n) + " cards");
  };
  // Rows (1, 1/n) and right sides t/t_ddp - 1, each divided by t/t_ddp.
  double xx = 0, xy = 0, yy = 0, xr = 0, yr = 0;
  for (const auto& [n, m] : sharded.minutes) {
    const double ratio = m / whole_at(n), x = 1 / ratio, y = 1 / (n * ratio), r = (ratio - 1) / ratio;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    xr += x * r;
    yr += y * r;
  }
  const double determinant = xx * yy - xy * xy;
  SlowdownFit fit;
  fit.a = (xr * yy - yr * xy) / determinant;
  fit.b = (yr * xx - xr * xy) / determinant;
  for (const auto& [n, m] : sharded.minutes)
    fit.residuals.emplace_back(n, (1 + fit.a + fit.b / n) * whole_at(n) / m - 1);
  return fit;
}

}  // namespace cirrus::scale
