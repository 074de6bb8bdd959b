// What the published SR3 network sees of an observation: the map as an image in [-1, 1], enlarged by bicubic
// interpolation. The published study divides each image by its own maximum and keeps 8 bits; here the scale comes from
// the low-resolution map alone, which is all there is when a map is enhanced, and values stay float32.
#pragma once

#include "enhance/observation.h"

namespace cirrus::enhance {

/// T(HR) = base + scale * x0 with x0, the image, in [-1, 1]; base and scale are constants of the map. maps: [1, H, W];
/// scalars: [0].
Prepared prepare_image(const Observation& observation);

}  // namespace cirrus::enhance
