// The sum of windows as ATen operators, one window after the other.
#include "kernels/blend.h"

#include <c10/core/GradMode.h>

namespace cirrus::kernels::reference {

void blend_windows(at::Tensor& field, const at::Tensor& windows, const std::vector<std::int64_t>& members,
                   const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& columns,
                   const at::Tensor& row_weights, const at::Tensor& column_weights) {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::int64_t k = static_cast<std::int64_t>(i);
    field[members[i]]
        .narrow(1, rows[i], windows.size(2))
        .narrow(2, columns[i], windows.size(3))
        .addcmul_(windows[k], row_weights[k].unsqueeze(1) * column_weights[k].unsqueeze(0));
  }
}

}  // namespace cirrus::kernels::reference
