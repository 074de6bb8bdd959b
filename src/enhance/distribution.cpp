// Scores of a map's properties over the trained range.
#include "enhance/distribution.h"

#include <cstdio>

namespace cirrus::enhance {
namespace {

/// Robust sigmas above the median that the brightest pixels of the training skies reach.
constexpr double kTrainedContrast = 3000;
constexpr double kLargestContrast = 1e9;  // of maps most of whose pixels are equal, where it would be infinite

}  // namespace

Ood check_distribution(const Decisions& d, const Model& model) {
  Ood out;
  char text[200];
  const auto judge = [&](double score) {
    if (!(score > out.score)) return;
    out.score = score;
    if (score > 1) out.reason = text;
  };
  const auto range = [&](const std::array<double, 2>& trained, double value, const char* what) {
    std::snprintf(text, sizeof(text), "%s is %.4g; training covered %.4g to %.4g", what, value, trained[0], trained[1]);
    judge(std::max(value / trained[1], trained[0] / value));
  };
  const Observation& o = d.observation;
  const metrics::Transform t = transform_of(o.lr);
  // The transform of a map most of whose pixels are equal takes the standard deviation instead: measured here anew.
  const double robust = metrics::Transform::robust(o.lr).a, above = o.lr.max().item<double>() - t.m;
  const double contrast = above <= 0 ? 0 : std::min(above / std::max(robust, 1e-12 * above), kLargestContrast);
  std::snprintf(text, sizeof(text),
                "its brightest pixel lies %.4g robust sigmas above the median; training went to about %.4g", contrast,
                kTrainedContrast);
  judge(contrast / kTrainedContrast);
  range(model.trained.output_beam, o.sampling.beam_out, "the output's beam in output pixels");
  if (!d.block_mode) {
    range(model.trained.input_beam, o.sampling.beam_in / static_cast<double>(o.sampling.factor),
          "the input's beam in its pixels");
    range(model.trained.signal_to_noise, t.a / o.noise, "the signal-to-noise ratio (robust sigma over noise)");
  }
  out.flag = out.score > 1;
  return out;
}

}  // namespace cirrus::enhance
