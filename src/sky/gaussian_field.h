// Gaussian random fields by Fourier synthesis on a padded periodic grid, from addressed normal numbers.
#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "base/random.h"

namespace cirrus::sky {

/// A periodic grid in whose corner a map lies: at least twice its size, so that the map itself is not periodic.
struct Grid {
  std::int64_t height, width;

  /// At least twice and at least `margin` larger than the map, 64 at least, sizes with fast transforms (2^a 3^b 5^c).
  static Grid padded(std::int64_t height, std::int64_t width, std::int64_t margin = 0);
};

/// Squared wave numbers [height, width/2 + 1], cycles per pixel squared, float32; the zero mode holds the smallest
/// other value.
at::Tensor squared_wave_numbers(const Grid& grid);

/// Complex white noise [height, width/2 + 1] whose irfft2 is real white noise of unit variance; zero mode 0.
at::Tensor white_modes(const Grid& grid, const Address& address);

/// Field [height, width] of the modes times a real amplitude [height, width/2 + 1].
at::Tensor field_of_modes(const Grid& grid, const at::Tensor& modes, const at::Tensor& amplitude);

/// Power-law field, P(k) ~ k^-slope times exp(-(k/cutoff)^2) (cutoff in cycles per pixel; 0: none), not normalised.
at::Tensor power_law_field(const Grid& grid, const Address& address, double slope, double cutoff = 0);

/// (field - mean) / standard deviation over the whole tensor; sums in double, in one order for any number of threads.
at::Tensor standardised(const at::Tensor& field);

/// Root mean square over the whole tensor, summed in one order (a reduction of ATen's changes with the number of
/// threads).
double root_mean_square(const at::Tensor& field);

}  // namespace cirrus::sky
