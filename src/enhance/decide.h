// What is decided before a map is enhanced: what its unit means, through which beam it was seen, how noisy it is. Each
// decision carries its reason, for console and header.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "enhance/observation.h"
#include "fits/image.h"
#include "fits/units.h"

namespace cirrus::enhance {

/// As the user asked.
struct ObservationChoice {
  std::int64_t factor = 4;
  std::string beam = "auto";  ///< auto, none, or an angle
  std::string beam_out;       ///< an angle; empty: the model's usual beam in output pixels
  std::string unit_type = "auto";
  std::string noise = "auto";      ///< auto, or a sigma in the map's unit
  double usual_beam_pixels = 2.3;  ///< of the model's outputs
  std::optional<double>
      beam_pixels{};  ///< FWHM in input pixels (0: none) where it is decided already: planes of one cube share it
};

struct Decisions {
  fits::UnitDecision unit;
  bool block_mode = true;
  std::string beam_source;  ///< "flag", "header", "estimated", "none"
  std::string beam_reason;
  double beam_in_arcsec = 0, beam_out_arcsec = 0;  ///< 0: unknown scale or block mode
  double pixel_arcsec = 0;                         ///< of the input; 0: no celestial WCS
  double beam_factor = 1;                          ///< values are multiplied by it (--beam-out on a per-beam unit)
  double output_scale = 1;  ///< of the observation: map's unit times this (per-pixel share, beam_factor)
  double noise = 0;         ///< sigma in the map's unit
  std::string noise_source;
  Observation observation;  ///< lr: filled pixels, divided by factor^2 for per-pixel units
  at::Tensor missing;       ///< [h, w] bool: pixels without data in the input
  std::vector<std::string> warnings;
};

/// Decides for an image. Throws Error(bad_data) for images that cannot be enhanced (all NaN, too small, a beam given by
/// flag that is smaller than the output's), Error(usage) for angles that are none. A beam of the header or of the map
/// itself that is too small to matter means block mode.
Decisions decide(const fits::Image& image, const ObservationChoice& choice);

}  // namespace cirrus::enhance
