// Cases for an evaluation: read from files, or made by degrading a map whose truth is the map itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "enhance/enhancer.h"
#include "enhance/evaluate.h"

namespace cirrus::enhance {

/// How a truth is degraded. Angles in arcsec; unset: a beam of 2.3 low-resolution pixels, noise of robust sigma / 30.
struct Degrading {
  std::optional<double> beam_arcsec, noise;
};
/// "beam=27.6arcsec,noise=0.01". Throws Error(usage).
Degrading parse_degrading(const std::string& text);

/// A case from a map taken as the truth, cropped to whole blocks: block means, or seen through a beam with addressed
/// noise.
MapToEvaluate degraded_case(const std::string& truth_path, std::int64_t factor, const std::string& mode,
                            const Degrading& degrading, std::uint64_t seed);

/// A case from a low-resolution map and its truth. The beam is the low-resolution map's BMAJ (none: block mode), the
/// truth's its BEAMHR or BMAJ, noise its NOISE.
MapToEvaluate paired_case(const std::string& lr_path, const std::string& truth_path);

/// The cases NN_<mode>_x<factor>.fits with NN_truth.fits of a folder. Throws Error(no_input) if there are none.
std::vector<MapToEvaluate> set_cases(const std::string& folder, const std::string& mode, std::int64_t factor);

/// The observation a case is to a model.
Observation observation_of(const metrics::Case& question, double usual_beam_pixels);

/// The methods that ask the model: regression (one evaluation), sample (one member), mean (the ensemble). The last two
/// share one ensemble a map. The model must outlive them.
std::vector<NamedMethod> model_methods(const std::vector<std::string>& names, Model& model,
                                       const EnhanceOptions& options);

}  // namespace cirrus::enhance
