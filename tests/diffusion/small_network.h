// A network small enough to run everywhere, with gains that are not zero, so that every layer counts.
#pragma once

#include "diffusion/edm_network.h"
#include "tests/diffusion/gaussian_data.h"

namespace cirrus::test {

inline diffusion::EdmConfig small_config() {
  diffusion::EdmConfig c;
  c.widths = {8, 16};
  c.middle_blocks = 1;
  c.embedding = 12;
  return c;
}

/// Gains of a network start at zero; here they are of order 1/2.
inline void randomise_gains(diffusion::EdmNetwork& network) {
  std::uint64_t seed = 1000;
  for (const diffusion::NamedTensor& p : network.parameters())
    if (p.name.starts_with("gain")) p.tensor.copy_(0.5 * normals(p.tensor.sizes(), seed++));
}

}  // namespace cirrus::test
