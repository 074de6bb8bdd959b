// Instrument noise for degraded maps: white, and 1/f stripes along a scan. Addressed: a pixel's noise does not depend
// on threads.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace cirrus::sky {

/// map + sigma * white noise; map [..., H, W] of float32 or float64, sigma in its unit. The noise is that of (seed,
/// item). Throws Error 64 if sigma is negative or not finite.
at::Tensor add_noise(const at::Tensor& map, double sigma, std::uint64_t seed, std::uint64_t item);

/// Stripes [height, width], float32, of standard deviation `rms`: drifts with a 1/f spectrum along the scan,
/// independent from one scan line to the next, as IRAS and Herschel maps keep. `angle`: of the scan from +x towards +y,
/// radians.
at::Tensor stripes(std::int64_t height, std::int64_t width, double rms, double angle, std::uint64_t seed,
                   std::uint64_t item);

/// The same along a random scan angle.
at::Tensor stripes(std::int64_t height, std::int64_t width, double rms, std::uint64_t seed, std::uint64_t item);

}  // namespace cirrus::sky
