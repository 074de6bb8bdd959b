// The log-intensity fields behind each family of dust. Used by dust.cpp alone.
#pragma once

#include <ATen/ATen.h>

#include "base/random.h"
#include "sky/dust.h"
#include "sky/gaussian_field.h"

namespace cirrus::sky {

/// Where a field is made: the area wanted in the corner of a padded grid, and the addresses of its random numbers.
struct Canvas {
  std::int64_t height, width;  ///< of the area wanted (the map and a margin for the beam)
  Grid grid;
  std::uint64_t seed, index;
  std::uint32_t first_step =
      16;  ///< addresses step first_step and up belong to this field; 64 apart for parts of a mixture

  Address address(std::uint32_t part) const { return Address(seed, Purpose::sky, index, first_step + part); }
  at::Tensor crop(const at::Tensor& field) const { return field.slice(0, 0, height).slice(1, 0, width); }
};

/// ln I [height, width], float32, zero mean and unit variance over the area. beta is the slope asked for.
at::Tensor lognormal_field(const Canvas& canvas, double beta);
at::Tensor cascade_field(const Canvas& canvas, double beta);
at::Tensor filament_field(const Canvas& canvas, double beta, double sigma);
at::Tensor advected_field(const Canvas& canvas, double beta);
at::Tensor warped_field(const Canvas& canvas, double beta);
at::Tensor log_field(const Canvas& canvas, Family family, double beta, double sigma);

}  // namespace cirrus::sky
