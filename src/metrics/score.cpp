// Figures put together from the files of this folder.
#include "metrics/score.h"

#include "base/errors.h"
#include "metrics/consistency.h"
#include "metrics/ensemble.h"
#include "metrics/map.h"
#include "metrics/seams.h"
#include "metrics/spectra.h"
#include "metrics/ssim.h"
#include "metrics/transform.h"

namespace cirrus::metrics {
namespace {

at::Tensor checked_output(const at::Tensor& map, const at::Tensor& truth, const std::string& what) {
  const at::Tensor output = as_map(map, what);
  if (output.sizes() != truth.sizes())
    throw Error(ExitCode::bad_data, what + " has " + size_text(output) + " pixels, the truth " + size_text(truth));
  if (!output.isfinite().all().item<bool>())
    throw Error(ExitCode::bad_data, what + " holds pixels that are not finite", "figures need every pixel");
  return output;
}

/// What all outputs of one case are compared with.
struct Reference {
  Case question;
  Transform transform;
  at::Tensor truth_t, bicubic_error, bicubic_error_t;
};

Reference reference_of(const Case& question) {
  Reference reference{checked(question), {}, {}, {}, {}};
  reference.transform = Transform::of(reference.question.lr);
  reference.truth_t = reference.transform.forward(reference.question.truth);
  const at::Tensor upsampled = baseline("bicubic", reference.question);
  reference.bicubic_error = upsampled - reference.question.truth;
  reference.bicubic_error_t = reference.transform.forward(upsampled) - reference.truth_t;
  return reference;
}

void score_mean(const Reference& r, const at::Tensor& mean, Score& score) {
  const int64_t s = r.question.factor;
  const at::Tensor mean_t = r.transform.forward(mean), error_t = mean_t - r.truth_t;
  score.rT = rms(error_t) / rms(r.bicubic_error_t);
  score.rL = rms(mean - r.question.truth) / rms(r.bicubic_error);
  score.psnr = psnr(mean_t, r.truth_t);
  score.ssim = ssim(mean_t, r.truth_t);
  const RingSums rings = ring_sums(mean_t, r.truth_t);
  for (int i = 0; i < kRings; ++i) score.k.push_back(ring_centre(i));
  score.ps_k = power_ratio(rings);
  score.r_k = correlation(rings);
  score.ps = added_power(score.ps_k, s);
  score.ps_lin = added_power(power_ratio(ring_sums(mean, r.question.truth)), s);
  score.r_lo = mean_correlation(score.r_k, s, 0.75, 1);
  score.r_hi = mean_correlation(score.r_k, s, 1, 1.5);
  score.k_half = half_correlation(score.r_k);
  const Consistency agreement = consistency(r.question, mean);
  score.flux_error = agreement.flux_error;
  score.chi2 = agreement.chi2;
  if (const auto steps = seams(error_t, r.bicubic_error_t, s)) {
    score.seam = steps->seam;
    score.grid = steps->grid;
  }
}

void score_sample(const Reference& r, const at::Tensor& sample, Score& score) {
  const int64_t s = r.question.factor;
  const at::Tensor sample_t = r.transform.forward(sample), error_t = sample_t - r.truth_t;
  score.sample_rT = rms(error_t) / rms(r.bicubic_error_t);
  score.sample_rL = rms(sample - r.question.truth) / rms(r.bicubic_error);
  score.sample_ps_k = power_ratio(ring_sums(sample_t, r.truth_t));
  score.sample_ps = added_power(score.sample_ps_k, s);
  score.sample_ps_lin = added_power(power_ratio(ring_sums(sample, r.question.truth)), s);
  const Consistency agreement = consistency(r.question, sample);
  score.sample_flux_error = agreement.flux_error;
  score.sample_chi2 = agreement.chi2;
  if (const auto steps = seams(error_t, r.bicubic_error_t, s)) {
    score.sample_seam = steps->seam;
    score.sample_grid = steps->grid;
  }
}

void score_members(const Reference& r, const at::Tensor& members, Score& score) {
  EnsembleFigures ensemble = ensemble_figures(members, r.question.truth, r.transform);
  score.members = ensemble.members;
  score.crps = ensemble.crps / r.bicubic_error_t.abs().mean().item<double>();
  score.coverage = ensemble.coverage;
  score.coverage95 = ensemble.coverage95;
  score.spread_skill = ensemble.spread_skill;
  score.rank = std::move(ensemble.rank);
}

}  // namespace

Score score(const Case& question, const at::Tensor& mean, const std::optional<at::Tensor>& members,
            const std::optional<at::Tensor>& sample) {
  const Reference reference = reference_of(question);
  const at::Tensor& truth = reference.question.truth;
  Score score;
  score_mean(reference, checked_output(mean, truth, "the output"), score);
  if (members) {
    if (members->dim() != 3)
      throw Error(ExitCode::bad_data, "members are no cube", "give the member along the first axis");
    for (int64_t i = 0; i < members->size(0); ++i) checked_output((*members)[i], truth, "a member");
    if (members->size(0) > 1) score_members(reference, *members, score);
  }
  if (sample || (members && members->size(0) > 0))
    score_sample(reference, checked_output(sample ? *sample : (*members)[0], truth, "the sample"), score);
  return score;
}

}  // namespace cirrus::metrics
