// Windows of fields added up, each with a weight that is a product of one along rows and one along columns.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace cirrus::kernels {

/// field [M, 1, H, W] += windows [K, 1, th, tw] * row_weights [K, th] * column_weights [K, tw]: window k belongs to
/// member members[k] and its first pixel lies at (rows[k], columns[k]). Overlaps add up in the order of k, whatever the
/// threads. float32 on one device. Not differentiable.
void blend_windows(at::Tensor& field, const at::Tensor& windows, const std::vector<std::int64_t>& members,
                   const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& columns,
                   const at::Tensor& row_weights, const at::Tensor& column_weights);

namespace reference {
void blend_windows(at::Tensor& field, const at::Tensor& windows, const std::vector<std::int64_t>& members,
                   const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& columns,
                   const at::Tensor& row_weights, const at::Tensor& column_weights);
}

}  // namespace cirrus::kernels
