// Phases in their places, as ATen operators.
#include "kernels/activation.h"
#include "kernels/phase_join.h"

namespace cirrus::kernels::reference {

at::Tensor phase_sum_scale_act(const at::Tensor& phases, const at::Tensor& fine, const at::Tensor& scale) {
  const std::int64_t n = fine.size(0), c = fine.size(1), h = fine.size(2) / 2, w = fine.size(3) / 2;
  std::vector<at::Tensor> parts;
  for (std::int64_t py = 0; py < 2; ++py)
    for (std::int64_t px = 0; px < 2; ++px)
      parts.push_back(phases.narrow(1, (2 * py + px) * c, c).narrow(2, py, h).narrow(3, px, w));
  const at::Tensor placed = at::stack(parts, 1).view({n, 2, 2, c, h, w}).permute({0, 3, 4, 1, 5, 2});
  return scale_act(placed.reshape({n, c, 2 * h, 2 * w}) + fine, scale);
}

}  // namespace cirrus::kernels::reference
