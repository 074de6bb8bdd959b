// The moving average of weights on the CPU: one pass over each tensor.
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

CIRRUS_DISPATCH void average(float* averaged, const float* weights, std::int64_t n, float share) {
  for (std::int64_t i = 0; i < n; ++i) averaged[i] += share * (weights[i] - averaged[i]);
}

}  // namespace

namespace cpu {

void average_weights(at::TensorList averaged, at::TensorList weights, const at::Tensor& share) {
  for (std::size_t k = 0; k < averaged.size(); ++k)
    parallel(averaged[k].numel(), kGrain, [&](std::int64_t i, std::int64_t end) {
      average(data<float>(averaged[k]) + i, data<float>(weights[k]) + i, end - i, data<float>(share)[0]);
    });
}

}  // namespace cpu
}  // namespace cirrus::kernels
