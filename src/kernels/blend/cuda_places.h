// Where windows lie in the fields they are added to: the parameter of one launch that adds them all. A launch's
// parameters may take 4 KiB; more windows than fit are added by further launches, in order.
#pragma once

namespace cirrus::kernels::cuda {

struct Places {
  static constexpr int kMost = 300;
  int count = 0;
  int member[kMost], row[kMost], column[kMost];
};
static_assert(sizeof(Places) <= 4000);

}  // namespace cirrus::kernels::cuda
