// Agreement of an output with its input. Block mode: an exact projection in the transform, in closed form. Beam mode: the maximum a
// posteriori correction under the instrument's noise, by Gauss-Newton with conjugate gradients. All maps in the transform's units:
// q = (I - m)/a = sinh(T). Arithmetic in float64.
#pragma once

#include <ATen/ATen.h>

#include "sky/degrade.h"

namespace cirrus::enhance {

/// Shifts T by one constant a block so that the block mean of sinh(T) is q exactly: with E+- the block means of exp(+-T),
/// exp(d) solves E+ u^2 - 2 q u - E- = 0. t: [..., s h, s w], q: [h, w]; returns t + d.
at::Tensor project_blocks(const at::Tensor& t, const at::Tensor& q, std::int64_t factor);

struct BeamSolve {
  double noise = 0;                 ///< sigma of the data, in q units, > 0
  at::Tensor sigma;                 ///< [H, W]: prior standard deviation of the correction in T
  double correlation = 1.5;         ///< pixels: Gaussian correlation of the correction
  at::Tensor weight;                ///< [h, w]: 1 where the input has data, 0 where it was filled; undefined: all 1
  int outer_steps = 12, inner_steps = 60;
};
/// T + d that minimises |D sinh(T + d) - q|^2 / noise^2 + d' P^-1 d, P = sigma C sigma. t: [H, W], q: [h, w] float64.
at::Tensor solve_beam(const at::Tensor& t, const at::Tensor& q, const sky::Degradation& degrade, const BeamSolve& options);

/// Mean of ((q - D sinh T) / noise)^2 over pixels farther than 4 kernel sigmas from the border (all pixels of a map too small for
/// that), weighted.
double chi_square(const at::Tensor& t, const at::Tensor& q, const sky::Degradation& degrade, double noise, const at::Tensor& weight);

}  // namespace cirrus::enhance
