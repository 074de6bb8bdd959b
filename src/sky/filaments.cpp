// Filaments: random smooth curves with Plummer profiles and elliptical cores, and a network of thin coherent ones along
// the contour lines of a smooth field, all multiplied onto a lognormal background (contrast is relative to what lies
// around them). Profile: column density (1 + (r/R)^2)^((1-p)/2), p about 2 (Arzoumanian+ 2011, A&A 529, L6).
#include <algorithm>
#include <cmath>
#include <vector>

#include "sky/families.h"
#include "sky/profile.h"

namespace cirrus::sky {
namespace {

struct Curve {
  std::vector<CurvePoint> points;
};

constexpr double kStep = 3;  // pixels between the points of a curve
constexpr double kTurn = 6.283185307179586;

/// A correlated random walk: its curvature is a decaying random process with radii around `persistence` pixels.
Curve random_curve(Stream& stream, double height, double width, double length, double persistence) {
  double y = stream.uniform(-0.1, 1.1) * height, x = stream.uniform(-0.1, 1.1) * width;
  double direction = stream.uniform(0, kTurn), bend = 0;
  const double keep = std::exp(-kStep / persistence), kick = std::sqrt(1 - keep * keep) / persistence;
  const double phase = stream.uniform(0, kTurn), beads = stream.uniform(25, 90), depth = stream.uniform(0, 0.4);
  const auto steps = static_cast<int>(length / kStep);
  Curve curve;
  for (int i = 0; i <= steps; ++i) {
    const double s = i * kStep / length, taper = std::min(1.0, 4 * std::min(s, 1 - s));
    const double weight = taper * (1 + depth * std::sin(kTurn * i * kStep / beads + phase));
    curve.points.push_back({static_cast<float>(y), static_cast<float>(x), static_cast<float>(weight)});
    bend = keep * bend + kick * stream.normal();
    direction += bend * kStep;
    y += kStep * std::sin(direction);
    x += kStep * std::cos(direction);
  }
  return curve;
}

/// A fibre that winds about a curve at up to `distance` pixels from it (bundles as in Hacar+ 2013).
Curve fibre_of(Stream& stream, const Curve& curve, double distance) {
  const double phase = stream.uniform(0, kTurn), wave = stream.uniform(60, 200), strength = stream.uniform(0.4, 1);
  Curve fibre = curve;
  for (std::size_t i = 0; i + 1 < curve.points.size(); ++i) {
    const CurvePoint &a = curve.points[i], &b = curve.points[i + 1];
    const auto shift =
        static_cast<float>(distance / kStep * std::sin(kTurn * static_cast<double>(i) * kStep / wave + phase));
    fibre.points[i] = {a.y + shift * (b.x - a.x), a.x - shift * (b.y - a.y), a.weight * static_cast<float>(strength)};
  }
  fibre.points.pop_back();  // it has no direction
  return fibre;
}

/// Elliptical Gaussian cores along a curve, elongated with it.
void add_cores(Stream& stream, const Curve& curve, double radius, double contrast, const Raster& sum) {
  const auto n = static_cast<std::int64_t>(curve.points.size());
  for (std::uint64_t core = stream.below(4); core > 0; --core) {
    const auto i = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(n - 1)));
    const CurvePoint &a = curve.points[static_cast<std::size_t>(i)], &b = curve.points[static_cast<std::size_t>(i + 1)];
    const double minor = std::max(0.8, radius * stream.uniform(0.7, 1.4)), major = minor * stream.uniform(1, 2.5);
    add_gaussian(sum,
                 {a.y, a.x, major, minor, std::atan2(b.y - a.y, b.x - a.x), contrast * stream.log_uniform(0.5, 4)});
  }
}

}  // namespace

at::Tensor filament_field(const Canvas& canvas, double beta, double sigma) {
  Stream stream(canvas.address(0));
  const auto height = static_cast<double>(canvas.height), width = static_cast<double>(canvas.width);
  const at::Tensor background = standardised(canvas.crop(power_law_field(canvas.grid, canvas.address(1), beta)));
  const at::Tensor sum = at::zeros({canvas.height, canvas.width}, at::kFloat);
  const Raster raster{sum.data_ptr<float>(), canvas.height, canvas.width};

  const double fields = std::max(1.0, height * width / 65536.0);  // of 256 x 256 pixels
  const auto count = static_cast<int>(stream.log_uniform(12, 60) * fields);
  FilamentPainter painter(canvas.height, canvas.width);
  for (int i = 0; i < count; ++i) {
    const double radius = std::pow(6.0, std::pow(stream.uniform(), 1.5)), contrast = stream.log_uniform(0.3, 3),
                 p = stream.uniform(1.7, 2.7);
    const double length = std::clamp(stream.log_uniform(0.25, 1.5) * std::min(height, width), 24.0, 500.0);
    const Curve curve = random_curve(stream, height, width, length, stream.log_uniform(40, 250));
    painter.add(raster, curve.points, radius, p, contrast);
    if (radius < 3) add_cores(stream, curve, radius, contrast, raster);
    if (stream.uniform() < 0.35)
      for (std::uint64_t fibre = 1 + stream.below(4); fibre > 0; --fibre)
        painter.add(raster, fibre_of(stream, curve, stream.uniform(4, 14)).points,
                    std::min(radius, stream.log_uniform(1, 2)), p, contrast);
  }

  // The network: thin lines of constant width along contours of a smooth field, which fade in and out along their
  // length.
  if (stream.uniform() < 0.75) {
    const double thin = stream.log_uniform(0.8, 2.0), contrast = stream.log_uniform(0.5, 3.0);
    const auto levels = 1 + static_cast<int>(stream.below(3));
    const at::Tensor g = standardised(
        canvas.crop(power_law_field(canvas.grid, canvas.address(2), 4.0, 1.0 / stream.log_uniform(20, 50))));
    for (int level = 0; level < levels; ++level) {
      const auto part = 3 + static_cast<std::uint32_t>(level);
      const at::Tensor fade = standardised(canvas.crop(power_law_field(canvas.grid, canvas.address(part), 3.0, 0.03)));
      const at::Tensor weight = (at::clamp(fade + 0.4, 0, 2) * contrast).contiguous();
      add_contour_line(raster, g.const_data_ptr<float>(), stream.uniform(-1.2, 1.2), thin,
                       weight.const_data_ptr<float>());
    }
  }
  return standardised(background * (stream.uniform(0.35, 0.75) * sigma) + at::log1p(sum));
}

}  // namespace cirrus::sky
