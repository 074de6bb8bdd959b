// Agreement of an output with its input in beam mode (block mode: kernels/block_flux.h): the maximum a posteriori
// correction under the instrument's noise, by Gauss-Newton with conjugate gradients. All maps in the transform's units:
// q = (I - m)/a = sinh(T). Arithmetic in float64.
#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "sky/degrade.h"

namespace cirrus::enhance {

struct BeamSolve {
  double noise = 0;          ///< sigma of the data, in q units, > 0
  at::Tensor sigma;          ///< [H, W]: prior standard deviation of the correction in T
  at::Tensor low, high;      ///< [H, W]: what T may be; undefined: unbounded
  double correlation = 0.7;  ///< pixels: the correction's covariance is a Gaussian of sqrt(2) times this sigma
  at::Tensor weight;         ///< [h, w]: 1 where the input has data, 0 where it was filled; undefined: all 1
  int outer_steps = 16, inner_steps = 40;
  std::int64_t tile =
      256;  ///< pixels of q a side that are solved together: larger maps are cut, which bounds the memory
  std::int64_t part = 0,
               parts = 1;  ///< of several ranks that solve one map: this one solves tiles part, part + parts...
  std::function<void(double)> progress{};  ///< called with the share of the map that was just solved
};
struct BeamSolution {
  at::Tensor t;         ///< [H, W]
  at::Tensor degraded;  ///< [h, w]: D sinh(T), with the light from beyond the border that the solve found
};
/// T + d that minimises |D sinh(T + d) - q|^2 / noise^2 + d' P^-1 d, P = sigma C sigma, as far as q is fitted to its
/// noise. The sky goes on beyond the map: it starts as the mirror image and is free, since a beam carries light across
/// the border. t: [H, W], q: [h, w] float64. `degrade` gives beam and factor. Tiles overlap by as much as a correction
/// reaches, so that cutting changes the result by less than the solve's own tolerance. Where other ranks solve tiles,
/// zero.
BeamSolution solve_beam(const at::Tensor& t, const at::Tensor& q, const sky::Degradation& degrade,
                        const BeamSolve& options);

/// Tiles that a map is cut into.
std::int64_t beam_solve_tiles(const sky::Degradation& degrade);

/// Pixels of q that one solve takes the time of: the sky beyond the border is solved with the map.
double beam_solve_pixels(const sky::Degradation& degrade);

/// Bytes one solve takes, with the default tile.
double beam_solve_bytes(const sky::Degradation& degrade);

/// Mean of ((q - D sinh T) / noise)^2 over pixels farther than 4 kernel sigmas from the border (all pixels of a map too
/// small for that), weighted.
double chi_square(const at::Tensor& t, const at::Tensor& q, const sky::Degradation& degrade, double noise,
                  const at::Tensor& weight);

}  // namespace cirrus::enhance
