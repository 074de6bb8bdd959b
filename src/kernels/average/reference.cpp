// The moving average as ATen operators.
#include "kernels/average.h"

#include <c10/core/GradMode.h>

namespace cirrus::kernels::reference {

void average_weights(const std::vector<at::Tensor>& averaged, const std::vector<at::Tensor>& weights,
                     const at::Tensor& share) {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averaged.size(); ++i) averaged[i].add_(share.squeeze() * (weights[i] - averaged[i]));
}

}  // namespace cirrus::kernels::reference
