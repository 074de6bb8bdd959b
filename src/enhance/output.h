// The file of an enhanced map: the input's header edited card by card, the maps as extensions, what was done as SR* cards, and the
// quick-look picture.
#pragma once

#include "enhance/decide.h"
#include "enhance/enhancer.h"
#include "fits/scale.h"
#include "fits/wcs_check.h"

namespace cirrus::enhance {

/// What is written beside the maps.
struct OutputOptions {
  std::string path;                ///< of the FITS file
  bool overwrite = false;
  bool compress = false;
  bool as_double = false;          ///< BITPIX -64 (from a -64 input)
  bool save_members = false;
  bool drop_distortion = false;
  std::string command;             ///< for HISTORY: without absolute paths
  std::string device, dtype;       ///< for HISTORY
};

/// Out-of-distribution verdict: how far the input lies from what the model was trained on.
struct Ood {
  bool flag = false;
  double score = 0;                ///< 1 = at the border of the trained range
  std::string reason;
};
Ood check_distribution(const Decisions& decisions, const Model& model);

/// What was written, for console and JSON.
struct Written {
  std::string fits;
  double flux_error = 0;           ///< block mode: largest |D out - in| over max(|in|, robust sigma); beam mode: of the map's mean
  fits::WcsCheck wcs;
  std::vector<std::string> warnings;
};

/// Header of the output: scaled WCS, unit beam, no provenance yet. Throws what fits::scale_header throws.
fits::Header scaled_header(const fits::Image& image, const Decisions& decisions, std::int64_t factor, bool drop_distortion, std::vector<std::string>& warnings);

Written write_output(const fits::Image& image, const Decisions& decisions, const Enhanced& enhanced, const Model& model, const EnhanceOptions& enhance,
                     const Ood& ood, const OutputOptions& options);

/// Input, mean, sample and standard deviation side by side, as PNG bytes.
std::string quicklook_png(const fits::Image& image, const Decisions& decisions, const Enhanced& enhanced);

}  // namespace cirrus::enhance
