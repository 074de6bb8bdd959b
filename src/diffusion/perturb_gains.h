// Networks start with gains of zero, biases of zero and norms of one, which hide layers from whoever only looks at a
// result: self-tests, benchmarks and tests move them away from there.
#pragma once

#include "diffusion/denoiser.h"

namespace cirrus::diffusion {

/// Adds `size` times N(0, 1) to each scalar and vector among the parameters; the same numbers on every device.
void perturb_gains(Denoiser& network, double size);

}  // namespace cirrus::diffusion
