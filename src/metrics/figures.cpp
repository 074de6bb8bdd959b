// The list of scalar figures, their means over maps, and their JSON.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "metrics/score.h"

namespace cirrus::metrics {
namespace {

constexpr bool kGeometric = true, kArithmetic = false;

constexpr std::array kFigures = {
    Figure{"rT", "", &Score::rT, kArithmetic, "RMSE over bicubic's, asinh scale: below 1 is better than bicubic"},
    Figure{"rL", "", &Score::rL, kArithmetic, "RMSE over bicubic's, in the map's unit"},
    Figure{"psnr", "", &Score::psnr, kArithmetic,
           "peak signal-to-noise ratio in dB, asinh scale, range 0.5-99.5 percentile"},
    Figure{"ssim", "", &Score::ssim, kArithmetic, "structural similarity, asinh scale: 1 is equal"},
    Figure{"ps", "", &Score::ps, kGeometric, "power of the added scales over the truth's: 1 is right, a mean has less"},
    Figure{"ps_lin", "", &Score::ps_lin, kGeometric, "the same in the map's unit"},
    Figure{"r_lo", "", &Score::r_lo, kArithmetic,
           "correlation with the truth just below the input's Nyquist frequency"},
    Figure{"r_hi", "", &Score::r_hi, kArithmetic, "correlation with the truth just above it"},
    Figure{"k_half", "coherence_half", &Score::k_half, kArithmetic,
           "cycles per pixel where the correlation falls below 0.5: beyond it, structure is statistical"},
    Figure{"flux_error", "", &Score::flux_error, kArithmetic,
           "largest relative difference of a block mean from the input pixel"},
    Figure{"chi2", "", &Score::chi2, kArithmetic,
           "degraded output against the input, in units of the noise: 1 is right"},
    Figure{"seam", "", &Score::seam, kArithmetic,
           "largest step across a line of pixels: 1.1-2.2 by chance, 3 is a seam"},
    Figure{"grid", "", &Score::grid, kArithmetic, "steps on the input's pixel edges over steps inside"},
    Figure{"sample_rT", "", &Score::sample_rT, kArithmetic,
           "rT of one member: expected near sqrt(2) of the best possible mean's"},
    Figure{"sample_rL", "", &Score::sample_rL, kArithmetic, "rL of one member"},
    Figure{"sample_ps", "", &Score::sample_ps, kGeometric, "ps of one member: 1 is right"},
    Figure{"sample_ps_lin", "", &Score::sample_ps_lin, kGeometric, "ps_lin of one member"},
    Figure{"sample_flux_error", "", &Score::sample_flux_error, kArithmetic, "flux_error of one member"},
    Figure{"sample_chi2", "", &Score::sample_chi2, kArithmetic, "chi2 of one member"},
    Figure{"sample_seam", "", &Score::sample_seam, kArithmetic, "seam of one member"},
    Figure{"sample_grid", "", &Score::sample_grid, kArithmetic, "grid of one member"},
    Figure{"crps", "", &Score::crps, kArithmetic, "fair CRPS over bicubic's mean absolute error: smaller is better"},
    Figure{"coverage", "coverage68", &Score::coverage, kArithmetic,
           "share of pixels inside the 68.27 % interval: 0.683 is right"},
    Figure{"coverage95", "", &Score::coverage95, kArithmetic, "share of pixels inside the 95 % interval"},
    Figure{"spread_skill", "", &Score::spread_skill, kArithmetic,
           "spread of the members over the error of their mean: 1 is right"},
};

double mean_of(const std::vector<double>& v, bool geometric) {
  double sum = 0;
  for (const double x : v) sum += geometric ? std::log(x) : x;
  sum /= static_cast<double>(v.size());
  return geometric ? std::exp(sum) : sum;
}

/// Ring by ring over the maps that have the ring.
std::vector<double> mean_rings(std::span<const Score> scores, std::vector<double> Score::*rings, bool geometric) {
  std::vector<std::vector<double>> columns;
  for (const Score& score : scores) {
    const std::vector<double>& v = score.*rings;
    columns.resize(std::max(columns.size(), v.size()));
    for (size_t i = 0; i < v.size(); ++i)
      if (std::isfinite(v[i])) columns[i].push_back(v[i]);
  }
  std::vector<double> means;
  for (const auto& column : columns) means.push_back(column.empty() ? NAN : mean_of(column, geometric));
  return means;
}

}  // namespace

std::span<const Figure> figures() { return kFigures; }

const Figure* find_figure(std::string_view name) {
  for (const Figure& figure : kFigures)
    if (figure.name == name || (!figure.alias.empty() && figure.alias == name)) return &figure;
  return nullptr;
}

Score mean_score(std::span<const Score> scores) {
  Score mean;
  for (const Figure& figure : kFigures) {
    std::vector<double> v;
    for (const Score& score : scores)
      if (const auto& value = score.*figure.value) v.push_back(*value);
    if (!v.empty()) mean.*figure.value = mean_of(v, figure.geometric);
  }
  mean.k = mean_rings(scores, &Score::k, kArithmetic);
  mean.ps_k = mean_rings(scores, &Score::ps_k, kGeometric);
  mean.r_k = mean_rings(scores, &Score::r_k, kArithmetic);
  mean.sample_ps_k = mean_rings(scores, &Score::sample_ps_k, kGeometric);
  // Rank histograms are comparable only between equally many members.
  std::vector<Score> with_members;
  for (const Score& score : scores)
    if (!score.rank.empty()) with_members.push_back(score);
  bool equal = !with_members.empty();
  for (const Score& score : with_members) equal = equal && score.members == with_members.front().members;
  if (equal) {
    mean.members = with_members.front().members;
    mean.rank = mean_rings(with_members, &Score::rank, kArithmetic);
  }
  return mean;
}

nlohmann::ordered_json to_json(const Score& score) {
  nlohmann::ordered_json json;
  for (const Figure& figure : kFigures) {
    const auto& value = score.*figure.value;
    if (!value) continue;
    json[std::string(figure.name)] = *value;
    if (!figure.alias.empty()) json[std::string(figure.alias)] = *value;
  }
  if (score.members > 0) json["members"] = score.members;
  const auto add = [&](const char* name, const std::vector<double>& v) {
    if (!v.empty()) json[name] = v;
  };
  add("k", score.k);
  add("ps_k", score.ps_k);
  add("r_k", score.r_k);
  add("sample_ps_k", score.sample_ps_k);
  add("rank", score.rank);
  return json;
}

}  // namespace cirrus::metrics
