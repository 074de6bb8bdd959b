// The sum of windows on the CPU: a row of a field is one thread's, which adds to it the windows that cover it in their
// order.
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

CIRRUS_DISPATCH void add_weighted(const float* __restrict window, const float* __restrict weights,
                                  float* __restrict field, std::int64_t n, float row_weight) {
  for (std::int64_t i = 0; i < n; ++i) field[i] += window[i] * (row_weight * weights[i]);
}

}  // namespace

namespace cpu {

void blend_windows(at::Tensor& field, const at::Tensor& windows, at::IntArrayRef members, at::IntArrayRef rows,
                   at::IntArrayRef columns, const at::Tensor& row_weights, const at::Tensor& column_weights) {
  const std::int64_t height = field.size(2), width = field.size(3), th = windows.size(2), tw = windows.size(3);
  parallel(field.size(0) * height, kGrain / std::max<std::int64_t>(1, width), [&](std::int64_t r, std::int64_t end) {
    for (; r < end; ++r)
      for (std::size_t i = 0; i < members.size(); ++i) {
        const std::int64_t k = static_cast<std::int64_t>(i), y = r % height - rows[i];
        if (members[i] != r / height || y < 0 || y >= th) continue;
        add_weighted(data<float>(windows) + (k * th + y) * tw, data<float>(column_weights) + k * tw,
                     data<float>(field) + r * width + columns[i], tw, data<float>(row_weights)[k * th + y]);
      }
  });
}

}  // namespace cpu
}  // namespace cirrus::kernels
