// Advected and warped families: a field looked up where a flow carried each pixel from. Random solenoidal flows come
// from stream functions whose velocity spectrum is Kolmogorov's, E(k) ~ k^-5/3, i.e. stream-function power k^-14/3 in
// two dimensions.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sky/families.h"
#include "sky/interpolate.h"

namespace cirrus::sky {
namespace {

/// Positions in the padded grid, one for each pixel of the area.
struct Positions {
  std::vector<float> y, x;
  std::int64_t height, width;

  Positions(std::int64_t h, std::int64_t w) : y(static_cast<std::size_t>(h * w)), x(y.size()), height(h), width(w) {
    for (std::int64_t i = 0; i < h * w; ++i) {
      y[static_cast<std::size_t>(i)] = static_cast<float>(i / w);
      x[static_cast<std::size_t>(i)] = static_cast<float>(i % w);
    }
  }
  std::int64_t size() const { return height * width; }
};

constexpr std::int64_t kGrain = 4096;  // pixels

/// Velocity (vy, vx) [height, width, 2] of a stream function, rms speed 1: vy = d psi/dx, vx = -d psi/dy by central
/// differences.
at::Tensor velocity_of(const at::Tensor& stream_function) {
  const std::int64_t h = stream_function.size(0), w = stream_function.size(1);
  const at::Tensor psi = stream_function.contiguous(), velocity = at::empty({h, w, 2}, at::kFloat);
  const float* p = psi.const_data_ptr<float>();
  float* v = velocity.data_ptr<float>();
  for (std::int64_t y = 0; y < h; ++y) {
    const float *here = p + y * w, *up = p + (y == 0 ? h - 1 : y - 1) * w, *down = p + (y + 1 == h ? 0 : y + 1) * w;
    float* line = v + 2 * y * w;
    for (std::int64_t x = 0; x < w; ++x) {
      line[2 * x] = here[x + 1 == w ? 0 : x + 1] - here[x == 0 ? w - 1 : x - 1];
      line[2 * x + 1] = up[x] - down[x];
    }
  }
  return velocity / std::max(std::sqrt(2.0) * root_mean_square(velocity), 1e-30);
}

PeriodicField view_of(const at::Tensor& field) { return {field.const_data_ptr<float>(), field.size(0), field.size(1)}; }

/// Moves every position against the flow by `step` times the velocity there, `steps` times, with the midpoint rule.
void trace_back(Positions& at_positions, const at::Tensor& velocity, double step, int steps) {
  const PeriodicField v = view_of(velocity);
  const auto dt = static_cast<float>(step);
  // Fixed blocks, so that which pixels share a vector (and round alike) does not depend on the number of threads.
  constexpr std::int64_t kBlock = 512;
  const std::int64_t total = at_positions.size();
  at::parallel_for(0, (total + kBlock - 1) / kBlock, kGrain / kBlock, [&](std::int64_t begin, std::int64_t end) {
    float vy[kBlock], vx[kBlock], my[kBlock], mx[kBlock];
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t n = std::min(kBlock, total - block * kBlock);
      float *y = at_positions.y.data() + block * kBlock, *x = at_positions.x.data() + block * kBlock;
      for (int s = 0; s < steps; ++s) {
        sample_pair(v, y, x, n, vy, vx);
        for (std::int64_t i = 0; i < n; ++i) {
          my[i] = y[i] - 0.5f * dt * vy[i];
          mx[i] = x[i] - 0.5f * dt * vx[i];
        }
        sample_pair(v, my, mx, n, vy, vx);
        for (std::int64_t i = 0; i < n; ++i) {
          y[i] -= dt * vy[i];
          x[i] -= dt * vx[i];
        }
      }
    }
  });
}

/// Mean of the field over each pixel's image under the map: four points a pixel, so that strong compression does not
/// alias.
at::Tensor look_up(const at::Tensor& field, const Positions& positions) {
  const PeriodicField f = view_of(field);
  const std::int64_t h = positions.height, w = positions.width;
  at::Tensor out = at::empty({h, w}, at::kFloat);
  float* target = out.data_ptr<float>();
  at::parallel_for(0, h, std::max<std::int64_t>(1, kGrain / w), [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> y(static_cast<std::size_t>(w)), x(y), value(y);
    for (std::int64_t r = begin; r < end; ++r) {
      float* line = target + r * w;
      std::fill(line, line + w, 0.0f);
      for (int corner = 0; corner < 4; ++corner) {
        // A quarter pixel towards the neighbours; at the border away from them, by extrapolation.
        const std::int64_t rn = corner & 1 ? r + 1 : r - 1;
        const std::int64_t row = rn < 0 || rn >= h ? 2 * r - rn : rn;
        const float sign_y = row == rn ? 0.25f : -0.25f;
        for (std::int64_t c = 0; c < w; ++c) {
          const std::int64_t cn = corner & 2 ? c + 1 : c - 1;
          const std::int64_t column = cn < 0 || cn >= w ? 2 * c - cn : cn;
          const float sign_x = column == cn ? 0.25f : -0.25f;
          const auto here = static_cast<std::size_t>(r * w + c), up = static_cast<std::size_t>(row * w + c),
                     side = static_cast<std::size_t>(r * w + column);
          const auto i = static_cast<std::size_t>(c);
          y[i] = positions.y[here] + sign_y * (positions.y[up] - positions.y[here]) +
                 sign_x * (positions.y[side] - positions.y[here]);
          x[i] = positions.x[here] + sign_y * (positions.x[up] - positions.x[here]) +
                 sign_x * (positions.x[side] - positions.x[here]);
        }
        sample_cubic(f, y.data(), x.data(), w, value.data());
        for (std::int64_t c = 0; c < w; ++c) line[c] += 0.25f * value[static_cast<std::size_t>(c)];
      }
    }
  });
  return out;
}

/// The map size that sets how far flows carry: large maps hold more eddies, not larger ones.
double reach_of(const Canvas& canvas) {
  return static_cast<double>(std::min({canvas.height, canvas.width, std::int64_t{384}}));
}

}  // namespace

at::Tensor advected_field(const Canvas& canvas, double beta) {
  Stream stream(canvas.address(0));
  const double displacement = reach_of(canvas) * stream.log_uniform(0.12, 0.5);
  const double smallest_eddy = stream.log_uniform(12, 40);  // pixels
  const int stages = 2 + static_cast<int>(stream.below(3));
  const double gradient = stream.uniform() < 0.5 ? stream.uniform(0.5, 3) : 0.0;
  const double direction = stream.uniform(0, 6.283185307179586);
  const double psi_slope = stream.uniform(4.3, 5.2);

  Positions positions(canvas.height, canvas.width);
  constexpr int kSteps = 5;  // a stage
  for (int stage = 0; stage < stages; ++stage) {
    const at::Tensor psi = power_law_field(canvas.grid, canvas.address(2 + static_cast<std::uint32_t>(stage)),
                                           psi_slope, 1.0 / smallest_eddy);
    // Displacements of independent stages add in quadrature.
    trace_back(positions, velocity_of(psi), displacement / std::sqrt(stages) / kSteps, kSteps);
  }
  // Stirring moves power to small scales: what is stirred starts steeper than what is asked for.
  const at::Tensor scalar = power_law_field(canvas.grid, canvas.address(1), beta + 0.3, 0.2);
  at::Tensor out = standardised(look_up(scalar, positions));
  if (gradient > 0) {
    const at::Tensor y = at::from_blob(positions.y.data(), {canvas.height, canvas.width}, at::kFloat);
    const at::Tensor x = at::from_blob(positions.x.data(), {canvas.height, canvas.width}, at::kFloat);
    out = out + standardised(y * std::sin(direction) + x * std::cos(direction)) * gradient;
  }
  return standardised(out);
}

at::Tensor warped_field(const Canvas& canvas, double beta) {
  Stream stream(canvas.address(0));
  const int levels = 1 + static_cast<int>(stream.below(2));
  const double reach = reach_of(canvas) * stream.log_uniform(0.03, 0.12);
  const double ridges = stream.uniform() < 0.7 ? stream.uniform(0.3, 1.2) : 0.0;
  const double shocks = stream.uniform() < 0.5 ? stream.uniform(0.3, 1.0) : 0.0;
  const double fronts = stream.uniform(1.0, 3.0);  // shock fronts a standard deviation of their phase
  const double sharpness = stream.log_uniform(0.02, 0.2);

  Positions positions(canvas.height, canvas.width);
  for (int level = 0; level < levels; ++level) {
    const auto part = 4 + 2 * static_cast<std::uint32_t>(level);
    const at::Tensor d = at::stack({power_law_field(canvas.grid, canvas.address(part), 3.6, 0.06),
                                    power_law_field(canvas.grid, canvas.address(part + 1), 3.6, 0.06)},
                                   -1);
    trace_back(positions, d / root_mean_square(d), reach / std::sqrt(levels), 1);
  }
  at::Tensor out = standardised(look_up(power_law_field(canvas.grid, canvas.address(1), beta + 0.3), positions));
  if (ridges > 0) {  // sheets: bright creases along the zero lines of a smooth field
    const at::Tensor g =
        standardised(look_up(power_law_field(canvas.grid, canvas.address(2), beta + 1.0, 0.08), positions));
    out = out - standardised(at::log(g.abs() + sharpness)) * ridges;
  }
  if (shocks > 0) {  // a phase that rises slowly and falls at fronts
    const at::Tensor g =
        standardised(look_up(power_law_field(canvas.grid, canvas.address(3), beta + 1.2, 0.06), positions));
    const at::Tensor phase = g * fronts;
    out = out + standardised(phase - at::floor(phase)) * shocks;
  }
  return standardised(out);
}

}  // namespace cirrus::sky
