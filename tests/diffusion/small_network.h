// A network small enough to run everywhere.
#pragma once

#include "diffusion/edm_network.h"
#include "diffusion/perturb_gains.h"
#include "tests/diffusion/gaussian_data.h"

namespace cirrus::test {

inline diffusion::EdmConfig small_config() {
  diffusion::EdmConfig c;
  c.widths = {8, 16};
  c.middle_blocks = 1;
  c.embedding = 12;
  return c;
}

}  // namespace cirrus::test
