// From a low-resolution map to what the network works with: the base map in the transform, the local scale of what may
// be added to it, and the network's conditions. The same code serves training and enhancing. All statistics come from
// the whole map.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <nlohmann/json_fwd.hpp>

#include "enhance/wiener_upsample.h"
#include "metrics/transform.h"

namespace cirrus::enhance {

/// A low-resolution map and what is known about it.
struct Observation {
  at::Tensor lr;  ///< [h, w] float64, finite everywhere
  Sampling sampling;
  double noise = 0;        ///< sigma of white noise a pixel, in the map's unit; 0 in block mode
  double truth_noise = 0;  ///< noise of the sky itself over the map's robust sigma: training only, 0 when enhancing

  bool block_mode() const { return sampling.beam_in <= 0; }
};

inline constexpr std::int64_t kConditionMaps = 3;
inline constexpr std::int64_t kConditionScalars = 4;
inline constexpr std::size_t kScaleFeatures = 7;

/// The residual's rms as a function of the observation: ln rms = c . f, f = [1, L, L^2, K, K L, h, block], times the
/// local activity of the base map. Fitted on synthetic sky, stored in the model.
struct ResidualScale {
  std::array<double, kScaleFeatures> c{};

  nlohmann::json to_json() const;
  static ResidualScale from_json(const nlohmann::json& json);
};

/// L = log10(SNR) - 2, K = beam_in in low-resolution pixels - 1, h = beam_out - 2.3 (block mode: L = 2, K = -1).
std::array<double, kScaleFeatures> scale_features(const Observation& observation, const metrics::Transform& transform);

/// T of a map: metrics::Transform::of, but a few pixels that outshine all others do not decide the scale; a map without
/// contrast gets any positive one.
metrics::Transform transform_of(const at::Tensor& lr);

/// What sampler and trainer need of an observation.
struct Prepared {
  metrics::Transform transform;
  at::Tensor base;      ///< T(U), float32 [H, W]
  at::Tensor activity;  ///< sqrt(G(hp^2) + 0.2 geomean(hp^2)), hp the base map's own detail; float32 [H, W]
  at::Tensor scale;     ///< local scale: T(HR) = base + scale * x0 with rms(x0) about 0.5; float32 [H, W]
  at::Tensor maps;      ///< conditions, float32 [3, H, W]: 0.6 T(U), 0.7 hp/s, ln s
  at::Tensor scalars;   ///< conditions, float32 [4]: L, K, h, truth noise
};
Prepared prepare(const Observation& observation, const ResidualScale& scale);

}  // namespace cirrus::enhance
