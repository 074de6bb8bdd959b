// The file of an enhanced map: the input's header edited card by card, the maps as extensions, what was done as SR*
// cards, and the quick-look picture. A cube's planes are enhanced one by one and written together.
#pragma once

#include <span>

#include "enhance/decide.h"
#include "enhance/distribution.h"
#include "enhance/enhancer.h"
#include "fits/scale.h"
#include "fits/wcs_check.h"

namespace cirrus::enhance {

/// How the file is written, and by which command.
struct OutputOptions {
  std::string path;  ///< of the FITS file
  bool overwrite = false;
  bool compress = false;
  bool as_double = false;  ///< BITPIX -64 instead of -32
  bool save_members = false;
  bool all_planes = false;    ///< the planes are all of the input's cube
  std::string command;        ///< for HISTORY: without absolute paths
  std::string device, dtype;  ///< for HISTORY
};

/// Headers of the output, known before the work.
struct OutputHeader {
  fits::Header output;  ///< WCS scaled, beam of the unit changed if asked for; no provenance yet
  fits::Header input;   ///< the input's without its storage keywords, for RESIDUAL
  fits::WcsCheck wcs;   ///< output against input
  std::vector<std::string> warnings;
};
/// Throws what fits::scale_header throws: a distortion that cannot be scaled, unless drop_distortion.
OutputHeader output_header(const fits::Image& image, const Decisions& decisions, std::int64_t factor,
                           bool drop_distortion);

/// One plane as it is written: float32 (float64 if as_double), in the output's unit, NaN where the input has no data.
/// [H, W] unless stated; undefined where there is none.
struct OutputPlane {
  at::Tensor mean, std, sample, prior;
  at::Tensor members;   ///< [N, H, W]
  at::Tensor residual;  ///< [h, w], in the input's unit
  at::Tensor missing;   ///< [h, w] bool
  double flux_error =
      0;             ///< block mode: largest |D out - in| over max(|in|, robust sigma); beam mode: of the map's mean
  double noise = 0;  ///< sigma, in the map's unit
  metrics::Transform transform;
  std::optional<double> chi2, member_chi2;
  Ood ood;
};
OutputPlane output_plane(const Decisions& decisions, const Enhanced& enhanced, const Ood& ood,
                         const OutputOptions& options);
/// A plane of a cube in which nothing was observed.
OutputPlane blank_plane(std::int64_t height, std::int64_t width);

/// Figures of all planes: the largest flux error, mean chi-square, the highest out-of-distribution score.
struct Figures {
  double flux_error = 0;
  std::optional<double> chi2, member_chi2;
  Ood ood;
};
Figures figures_of(std::span<const OutputPlane> planes);

/// Writes the file; returns its path. `decisions`: of the first plane that has data. Throws as fits::write_images.
std::string write_output(const fits::Image& image, const OutputHeader& header, const Decisions& decisions,
                         std::span<const OutputPlane> planes, const Layout& layout, const Model& model,
                         const EnhanceOptions& enhance, const OutputOptions& options);

/// Input, mean, sample and standard deviation side by side, as PNG bytes.
std::string quicklook_png(const fits::Image& image, const Decisions& decisions, const OutputPlane& plane);

}  // namespace cirrus::enhance
