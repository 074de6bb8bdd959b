// Minkowski functionals of a map: how the area, the boundary and the connectedness of the region brighter than a
// threshold change with that threshold. Unlike a power spectrum they see filaments, holes and clumps. Normalisation:
// Schmalzing and Gorski 1998, MNRAS 297, 355.
#pragma once

#include <ATen/ATen.h>

#include <span>
#include <vector>

namespace cirrus::metrics {

/// One entry a threshold; area unit: one pixel.
struct MinkowskiFunctionals {
  std::vector<double> area;      ///< v0: share of the map above the threshold
  std::vector<double> boundary;  ///< v1: length of the boundary an area, over 4
  std::vector<double> euler;     ///< v2: Euler characteristic (components minus holes) an area
};

/// Functionals of {map > threshold} for each threshold, by marching squares on the pixel centres: the boundary is
/// linear within a cell of four pixels, and a cell with two opposite corners above counts half as connected. Edges of
/// the map are not boundary. map [H, W], at least 2 x 2 (Error bad_data).
MinkowskiFunctionals minkowski_functionals(const at::Tensor& map, std::span<const double> thresholds);

/// What a Gaussian random field of zero mean, standard deviation `sigma` and mean square gradient <|grad u|^2> =
/// `gradient2` gives at one threshold (Tomita 1986): area, boundary, euler.
struct GaussianMinkowski {
  double area, boundary, euler;
};
GaussianMinkowski gaussian_minkowski(double threshold, double sigma, double gradient2);

}  // namespace cirrus::metrics
