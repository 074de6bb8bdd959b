// Every figure by which an output is judged against the truth. T is metrics/transform.h; "of the sample" means one
// member, the map to use for statistics, where the mean is the map to use for values. Which figure is which is written
// at figures().
#pragma once

#include <ATen/ATen.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/case.h"

namespace cirrus::metrics {

/// Figures that do not apply (calibration without members, chi2 of a block map, ...) are empty.
struct Score {
  std::optional<double> rT, rL;            ///< RMSE of the mean over bicubic's, in T and in the map's unit
  std::optional<double> psnr;              ///< dB in T, range: 99.5 minus 0.5 percentile of the truth
  std::optional<double> ssim;              ///< in T, same range
  std::optional<double> ps, ps_lin;        ///< median power ratio of the added scales, in T and in the map's unit
  std::optional<double> r_lo, r_hi;        ///< correlation at 0.75-1 and at 1-1.5 of the input's Nyquist frequency
  std::optional<double> k_half;            ///< cycles per pixel where the correlation falls below 0.5
  std::optional<double> flux_error, chi2;  ///< metrics/consistency.h
  std::optional<double> seam, grid;        ///< metrics/seams.h
  std::optional<double> sample_rT, sample_rL, sample_ps, sample_ps_lin, sample_flux_error, sample_chi2, sample_seam,
      sample_grid;
  std::optional<double> crps;                                ///< fair CRPS in T over bicubic's mean absolute error in T
  std::optional<double> coverage, coverage95, spread_skill;  ///< metrics/ensemble.h
  int64_t members = 0;
  std::vector<double> k, ps_k, r_k;  ///< every ring: cycles per pixel, power ratio and correlation of the mean in T
  std::vector<double> sample_ps_k;   ///< power ratio of the sample in T
  std::vector<double> rank;          ///< shares of the truth's rank among the members
};

/// Scores an output. mean [s h, s w], members [n, s h, s w], sample [s h, s w] in the map's unit; without a sample,
/// member 0 is the sample. Throws Error(bad_data) where sizes differ or a pixel is not finite.
Score score(const Case& question, const at::Tensor& mean, const std::optional<at::Tensor>& members = {},
            const std::optional<at::Tensor>& sample = {});

/// A scalar figure: its name in tables and JSON, a second name where users know it by another, how it is averaged over
/// maps, and one sentence for the reader of a report.
struct Figure {
  std::string_view name, alias;
  std::optional<double> Score::*value;
  bool geometric;  ///< mean over maps: geometric for ratios of power, else arithmetic
  std::string_view meaning;
};

/// All scalar figures, in the order of tables.
std::span<const Figure> figures();

/// The figure of that name or alias, or nullptr.
const Figure* find_figure(std::string_view name);

/// Means over maps of all scalar figures, over the maps that have them, and of the ring figures (power geometric).
Score mean_score(std::span<const Score> scores);

/// {"rT": ..., "coverage": ..., "coverage68": ..., "k": [...], ...}: every figure that is defined, by name and alias.
nlohmann::ordered_json to_json(const Score& score);

}  // namespace cirrus::metrics
