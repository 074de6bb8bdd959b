// Simulated observations, their residuals, and the calibration of the residual's scale by least squares.
#include "enhance/training_field.h"

#include "sky/degrade.h"
#include "sky/dust.h"

namespace cirrus::enhance {
namespace {

/// Seeds of different purposes within a field's stream.
enum : std::uint32_t { kSkyParameters = 0, kObservation = 1, kDataNoise = 2 };

at::Tensor white_noise(at::IntArrayRef shape, std::uint64_t seed, std::uint64_t index) {
  Stream stream(Address(seed, Purpose::degrade, index, kDataNoise));
  at::Tensor n = at::empty(shape, at::kDouble);
  double* p = n.data_ptr<double>();
  for (std::int64_t i = 0; i < n.numel(); ++i) p[i] = stream.normal();
  return n;
}

/// (T(truth) - base) of a field and its preparation with a given scale.
struct Residual {
  Prepared prepared;
  at::Tensor difference;
};
Residual residual_of(const SimulatedField& field, const ResidualScale& scale) {
  Residual r{prepare(field.observation, scale), {}};
  r.difference = (r.prepared.transform.forward(field.truth)).to(at::kFloat) - r.prepared.base;
  return r;
}

}  // namespace

SimulatedField simulate_field(const FieldOptions& options, std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t sky_index = index / 2;
  Stream sky_stream(Address(seed, Purpose::sky, sky_index, kSkyParameters));
  sky::DustSpec spec = sky::draw_spec(sky_stream);
  const bool usual_out = sky_stream.uniform() < options.usual_share;
  spec.beam_pixels = usual_out ? options.usual_beam : sky_stream.uniform(options.beam_out[0], options.beam_out[1]);
  if (sky_stream.uniform() < options.truth_noise_share)
    spec.noise = sky_stream.log_uniform(options.truth_noise[0], options.truth_noise[1]);

  Stream stream(Address(seed, Purpose::degrade, index, kObservation));
  SimulatedField field;
  field.truth = sky::make_dust(spec, seed, sky_index, options.size, options.size).to(at::kDouble);
  Observation& o = field.observation;
  const double s = static_cast<double>(options.factor);
  o.sampling.factor = options.factor;
  o.sampling.beam_out = spec.beam_pixels;
  o.truth_noise = spec.noise;
  if (index % 2 == 0) {
    o.lr = sky::Degradation(options.size, options.size, 0, options.factor).apply(field.truth);
    return field;
  }
  const bool usual_in = stream.uniform() < options.usual_share;
  double beam = s * (usual_in ? options.usual_beam * (1 + 0.02 * stream.normal())
                              : stream.uniform(options.beam_in[0], options.beam_in[1]));
  beam = std::max(beam, 1.2 * spec.beam_pixels);  // small factors: a telescope's beam is wider than the output's
  const Sampling actual{options.factor, beam, spec.beam_pixels};
  const at::Tensor clean =
      sky::Degradation(options.size, options.size, actual.difference_sigma(), options.factor).apply(field.truth);
  const double noise = metrics::Transform::of(clean).a / stream.log_uniform(options.snr[0], options.snr[1]);
  o.lr = clean + noise * white_noise(clean.sizes(), seed, index);
  o.sampling.beam_in = std::max(beam * (1 + options.beam_error * stream.normal()), 1.1 * spec.beam_pixels);
  o.noise = noise * std::exp(options.noise_error * stream.normal());
  return field;
}

TrainingField make_training_field(const FieldOptions& options, std::uint64_t seed, std::uint64_t index,
                                  const ResidualScale& scale) {
  const Residual r = residual_of(simulate_field(options, seed, index), scale);
  return {at::cat({(r.difference / r.prepared.scale).unsqueeze(0), r.prepared.maps}), r.prepared.scalars};
}

Calibration calibrate(const FieldOptions& options, std::uint64_t seed, std::int64_t fields) {
  // ln rms(residual / activity) = c . f by least squares over fields; a pass for the scale, a pass for the bands.
  const auto n = static_cast<std::int64_t>(kScaleFeatures);
  at::Tensor features = at::zeros({fields, n}, at::kDouble), log_rms = at::zeros({fields, 1}, at::kDouble);
  std::vector<Residual> residuals;
  for (std::int64_t i = 0; i < fields; ++i) {
    const SimulatedField field = simulate_field(options, seed, static_cast<std::uint64_t>(i));
    Residual r = residual_of(field, {});
    const auto f = scale_features(field.observation, r.prepared.transform);
    for (std::int64_t j = 0; j < n; ++j) features[i][j] = f[static_cast<std::size_t>(j)];
    log_rms[i][0] = (r.difference / r.prepared.activity).square().mean(at::kDouble).log() / 2;
    r.prepared.maps = at::Tensor();
    residuals.push_back(std::move(r));
  }
  // A small ridge keeps features that do not vary in this set at zero.
  const at::Tensor normal =
      features.t().matmul(features) + 1e-6 * static_cast<double>(fields) * at::eye(n, at::kDouble);
  const at::Tensor c = at::linalg_solve(normal, features.t().matmul(log_rms)).contiguous();
  Calibration out;
  for (std::int64_t j = 0; j < n; ++j) out.scale.c[static_cast<std::size_t>(j)] = c[j][0].item<double>();

  at::Tensor log_band = at::zeros({kernels::kBands}, at::kDouble);
  for (std::int64_t i = 0; i < fields; ++i) {
    const Residual& r = residuals[static_cast<std::size_t>(i)];
    const double exponent = features[i].dot(c.squeeze(1)).item<double>();
    const at::Tensor x0 = r.difference / (2 * std::exp(exponent) * r.prepared.activity);
    log_band += kernels::band_pass(x0.unsqueeze(0).unsqueeze(0)).square().mean({0, 2, 3}).to(at::kDouble).log() / 2;
  }
  const at::Tensor rms = (log_band / static_cast<double>(fields)).exp();
  for (int b = 0; b < kernels::kBands; ++b) out.band_rms[static_cast<std::size_t>(b)] = rms[b].item<double>();
  return out;
}

}  // namespace cirrus::enhance
