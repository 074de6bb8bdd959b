// White noise and stripes. Stripes are a Gaussian field whose power depends on the wave number along the scan alone.
#include "sky/noise.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "base/errors.h"
#include "sky/gaussian_field.h"
#include "sky/normal.h"

namespace cirrus::sky {
namespace {

enum Part : std::uint32_t { part_white = 0, part_stripes = 1, part_angle = 2 };

void check(double sigma) {
  if (!(sigma >= 0) || !std::isfinite(sigma))
    throw Error(ExitCode::usage, "a noise of sigma " + std::to_string(sigma), "it is finite and not negative");
}

}  // namespace

at::Tensor add_noise(const at::Tensor& map, double sigma, std::uint64_t seed, std::uint64_t item) {
  check(sigma);
  at::Tensor noise = at::empty(map.sizes(), at::kFloat);
  fill_normal(Address(seed, Purpose::degrade, item, part_white),
              std::span<float>(noise.data_ptr<float>(), static_cast<std::size_t>(noise.numel())));
  return map + noise.to(map.scalar_type()) * sigma;
}

at::Tensor stripes(std::int64_t height, std::int64_t width, double rms, double angle, std::uint64_t seed,
                   std::uint64_t item) {
  check(rms);
  const Grid grid = Grid::padded(height, width);
  const at::Tensor ky = at::fft_fftfreq(grid.height, 1.0, at::kFloat).unsqueeze(1);
  const at::Tensor kx = at::fft_rfftfreq(grid.width, 1.0, at::kFloat).unsqueeze(0);
  const at::Tensor along = kx * std::cos(angle) + ky * std::sin(angle);
  // 1/f down to the longest wave the grid holds along the scan.
  const double longest = 1.0 / static_cast<double>(std::max(grid.height, grid.width));
  const at::Tensor amplitude = (along.square() + longest * longest).pow(-0.25);
  const at::Tensor field =
      field_of_modes(grid, white_modes(grid, Address(seed, Purpose::degrade, item, part_stripes)), amplitude);
  return standardised(field.slice(0, 0, height).slice(1, 0, width)) * rms;
}

at::Tensor stripes(std::int64_t height, std::int64_t width, double rms, std::uint64_t seed, std::uint64_t item) {
  Stream stream(Address(seed, Purpose::degrade, item, part_angle));
  return stripes(height, width, rms, stream.uniform(0, 3.141592653589793), seed, item);
}

}  // namespace cirrus::sky
