// The weights of the cascade's three blurs, as a parameter of its CUDA kernel.
#pragma once

namespace cirrus::kernels::cuda {

struct BlurWeights {
  static constexpr int kMostReach = 12;
  int reach[3];
  float taps[3][2 * kMostReach + 1];
};

}  // namespace cirrus::kernels::cuda
