// Where the weights of many layers are: the parameter of one launch that normalises them all. A launch's parameters may
// take 4 KiB; more layers than fit are normalised by several launches.
#pragma once

#include <cstdint>

namespace cirrus::kernels::cuda {

struct Layers {
  static constexpr int kMost = 80;
  int count = 0;
  int first_row[kMost + 1] = {};  ///< rows (output channels) before each layer; last: all
  int row_length[kMost];
  bool wide[kMost];            ///< rows can be accessed four values at a time
  const void* weights[kMost];  ///< float32
  const void* grads[kMost];    ///< backward: of the effective weights, in their type
  void* out[kMost];            ///< effective weights; backward: gradient; forced normalisation: the weights themselves
  float* inv[kMost];           ///< 1 / norm of each row
};
static_assert(sizeof(Layers) <= 4000);

}  // namespace cirrus::kernels::cuda
