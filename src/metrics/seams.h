// Seams: does an output change abruptly where two tiles meet? And does the input's pixel grid show through? Both look
// at steps of the error across pixel boundaries, relative to those of bicubic's error, which has no tiles.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace cirrus::metrics {

/// seam: largest median step over a row or column of boundaries, over the median of the 15 around it at the same place
/// in the block. Bicubic has 1, chance 1.1-2.2 (largest of 510); an edge with three times the usual step gives 3. grid:
/// mean step on block edges over the mean step inside blocks.
struct Seams {
  double seam = 1, grid = 1;
};

/// error = T(output) - T(truth), bicubic_error likewise, [H, W]. The outer two blocks are left out. Empty for maps
/// narrower than six blocks or factor 1.
std::optional<Seams> seams(const at::Tensor& error, const at::Tensor& bicubic_error, int64_t factor);

}  // namespace cirrus::metrics
