// Base map, local scale and conditions of an observation.
#include "enhance/observation.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "enhance/mirror.h"
#include "sky/degrade.h"

namespace cirrus::enhance {
namespace {

/// Guards divisions. Far below any map's numbers in any unit (1 Jy is 1e-26 W/m2/Hz), and its square is still a number.
constexpr double kSmallest = 1e-100;

/// Standard deviation, the thousandth of pixels farthest from the middle left out.
double spread_of(const at::Tensor& lr, double middle) {
  const at::Tensor distance = (lr - middle).abs().flatten();
  const std::int64_t n = distance.numel(), kept = std::max<std::int64_t>(1, n - std::max<std::int64_t>(1, n / 1000));
  const at::Tensor limit = std::get<0>(distance.kthvalue(kept));
  return lr.flatten().masked_select(distance <= limit).std(0, false).item<double>();
}

/// Noise for the Wiener filter: at least 1e-4 of the map's standard deviation, so that noiseless maps are well posed.
double filter_noise(const Observation& o, double middle) {
  return std::max({o.noise, 1e-4 * spread_of(o.lr, middle), kSmallest});
}

}  // namespace

metrics::Transform transform_of(const at::Tensor& lr) {
  metrics::Transform t = metrics::Transform::robust(lr);
  if (!(t.a > 1e-3 * spread_of(lr, t.m))) t = metrics::Transform::of(lr);
  if (!(t.a > 1e-12 * std::abs(t.m))) t.a = std::max(1e-6 * std::abs(t.m), kSmallest);
  return t;
}

nlohmann::json ResidualScale::to_json() const { return c; }

ResidualScale ResidualScale::from_json(const nlohmann::json& json) {
  ResidualScale s;
  if (!json.is_array() || json.size() != kScaleFeatures)
    throw Error(ExitCode::bad_data,
                "The model's residual scale is not a list of " + std::to_string(kScaleFeatures) + " numbers");
  for (std::size_t i = 0; i < kScaleFeatures; ++i) {
    s.c[i] = json[i].get<double>();
    if (!(std::abs(s.c[i]) < 100))
      throw Error(ExitCode::bad_data, "The model's residual scale holds " + json[i].dump() + ", which is impossible");
  }
  return s;
}

std::array<double, kScaleFeatures> scale_features(const Observation& o, const metrics::Transform& transform) {
  const double snr = transform.a / std::max(o.noise, kSmallest);
  const double l = o.block_mode() ? 2.0 : std::clamp(std::log10(snr) - 2, -2.0, 2.0);
  const double k = o.block_mode() ? -1.0 : o.sampling.beam_in / static_cast<double>(o.sampling.factor) - 1;
  return {1, l, l * l, k, k * l, o.sampling.beam_out - 2.3, o.block_mode() ? 1.0 : 0.0};
}

Prepared prepare(const Observation& o, const ResidualScale& residual_scale) {
  const std::int64_t s = o.sampling.factor;
  Prepared p;
  p.transform = transform_of(o.lr);
  const double ratio = fit_prior_to_noise(o.lr, filter_noise(o, p.transform.m), o.sampling);
  const at::Tensor normalised = ((o.lr - p.transform.m) / p.transform.a).to(at::kFloat);
  p.base = wiener_upsample(normalised, wiener_filter(ratio, o.sampling), s).asinh();

  // hp: detail of the base map below about two low-resolution pixels.
  const std::int64_t box = 2 * s + 1, height = p.base.size(0), width = p.base.size(1);
  const at::Tensor padded = mirror_pad(p.base, s, s, s, s).unsqueeze(0);
  const at::Tensor detail = p.base - at::avg_pool2d(padded, box, 1).squeeze(0);
  const at::Tensor power = detail.square() + 1e-7f;
  const double typical = std::exp(power.log().mean(at::kDouble).item<double>());
  p.activity = (sky::Degradation(height, width, 2.0 * static_cast<double>(s), 1).apply(power) + 0.2 * typical).sqrt();

  const auto f = scale_features(o, p.transform);
  double exponent = 0;
  for (std::size_t i = 0; i < kScaleFeatures; ++i) exponent += residual_scale.c[i] * f[i];
  const at::Tensor local = p.activity * std::exp(exponent);
  p.scale = 2 * local;  // rms of the residual over it: 1/2, EDM's sigma_data
  p.maps = at::stack({0.6f * p.base, 0.7f * detail / local, local.log()});
  p.scalars = at::tensor({f[1], f[3], f[5], std::min(20 * o.truth_noise, 3.0)}, at::kFloat);
  return p;
}

}  // namespace cirrus::enhance
