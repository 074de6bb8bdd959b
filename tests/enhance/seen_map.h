// A synthetic sky as a telescope would see it.
#pragma once

#include "metrics/fields.h"
#include "metrics/transform.h"
#include "sky/beam.h"
#include "sky/degrade.h"

namespace cirrus::tests {

/// A sky seen through a beam of `fwhm` of its own pixels, then pixels, then noise over the map's robust sigma.
inline at::Tensor seen_through(double fwhm, double noise, std::uint64_t seed, std::int64_t side = 128) {
  const at::Tensor sky = dust_sky(seed, 4 * side);
  const at::Tensor map =
      sky::Degradation(4 * side, 4 * side, sky::Beam{4 * fwhm}.difference(sky::Beam{2.3}).sigma(), 4).apply(sky);
  return map + noise * metrics::Transform::of(map).a * white_noise({side, side}, seed + 50);
}

}  // namespace cirrus::tests
