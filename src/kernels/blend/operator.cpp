// The sum of windows: checks, and its entry in torch's dispatcher.
#include "kernels/blend.h"

#include <torch/library.h>

#include "kernels/dispatch.h"

namespace cirrus::kernels {
namespace cpu {
void blend_windows(at::Tensor& field, const at::Tensor& windows, at::IntArrayRef members, at::IntArrayRef rows,
                   at::IntArrayRef columns, const at::Tensor& row_weights, const at::Tensor& column_weights);
}

namespace {

TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def(
      "blend_windows(Tensor(a!) field, Tensor windows, int[] members, int[] rows, int[] columns, Tensor row_weights,"
      " Tensor column_weights) -> ()");
}
TORCH_LIBRARY_IMPL(cirrus, CPU, m) { m.impl("blend_windows", cpu::blend_windows); }

}  // namespace

void blend_windows(at::Tensor& field, const at::Tensor& windows, const std::vector<std::int64_t>& members,
                   const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& columns,
                   const at::Tensor& row_weights, const at::Tensor& column_weights) {
  static const FusedOperator<decltype(cpu::blend_windows)> kernel("cirrus::blend_windows");
  const auto count = static_cast<std::int64_t>(members.size());
  TORCH_CHECK(field.dim() == 4 && field.size(1) == 1 && windows.dim() == 4 && windows.size(1) == 1 &&
                  windows.size(0) == count && rows.size() == members.size() && columns.size() == members.size() &&
                  row_weights.sizes() == at::IntArrayRef({count, windows.size(2)}) &&
                  column_weights.sizes() == at::IntArrayRef({count, windows.size(3)}),
              "blend_windows: field ", field.sizes(), ", windows ", windows.sizes(), " at ", count, ", weights ",
              row_weights.sizes(), " and ", column_weights.sizes());
  for (std::size_t k = 0; k < members.size(); ++k)
    TORCH_CHECK(members[k] >= 0 && members[k] < field.size(0) && rows[k] >= 0 &&
                    rows[k] + windows.size(2) <= field.size(2) && columns[k] >= 0 &&
                    columns[k] + windows.size(3) <= field.size(3),
                "blend_windows: window ", k, " of ", windows.sizes(), " lies at ", members[k], ", ", rows[k], ", ",
                columns[k], " of ", field.sizes());
  bool fused = field.is_contiguous() && kernel.on_device_of(field);
  for (const at::Tensor* x : {static_cast<const at::Tensor*>(&field), &windows, &row_weights, &column_weights})
    fused = fused && x->scalar_type() == at::kFloat && x->device() == field.device();
  if (fused) {
    kernel(field, windows.contiguous(), members, rows, columns, row_weights.contiguous(), column_weights.contiguous());
  } else {
    reference::blend_windows(field, windows, members, rows, columns, row_weights, column_weights);
  }
}

}  // namespace cirrus::kernels
