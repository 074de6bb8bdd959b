// Blocks of a map in the transform (q = sinh(T)) made to agree with what a coarser map measured. reference:: holds the
// same composed of plain ATen operators.
#pragma once

#include <ATen/ATen.h>

namespace cirrus::kernels {

/// |T| beyond this counts as this: its exponential stays far from the ends of float64.
inline constexpr double kLargestT = 300;

/// Shifts T by one constant a block so that the block mean of sinh(T) is q exactly: with E+- the block means of
/// exp(+-T), exp(d) solves E+ u^2 - 2 q u - E- = 0. t: [..., s h, s w], q: [h, w]; returns t + d in float64. Not
/// differentiable.
at::Tensor project_blocks(const at::Tensor& t, const at::Tensor& q, std::int64_t factor);

namespace reference {
at::Tensor project_blocks(const at::Tensor& t, const at::Tensor& q, std::int64_t factor);
}

}  // namespace cirrus::kernels
