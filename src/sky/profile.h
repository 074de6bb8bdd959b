// Drawing on a raster of floats: Plummer filaments along polylines, elliptical Gaussians, lines along the contours of a
// field.
#pragma once

#include <cstdint>
#include <vector>

namespace cirrus::sky {

/// A float image [height, width], row-major, that is drawn onto.
struct Raster {
  float* values;
  std::int64_t height, width;
};

/// A point of a curve, in pixels, with the weight the profile has there.
struct CurvePoint {
  float y, x, weight;
};

struct EllipticalGaussian {
  double y, x;          ///< centre, pixels
  double major, minor;  ///< sigma along and across, pixels
  double angle;         ///< of the major axis from +x towards +y, radians
  double peak;
};

/// Adds the Gaussian, cut at 4 sigma of the major axis.
void add_gaussian(const Raster& image, const EllipticalGaussian& gaussian);

/// Draws filaments one after another with the scratch images it keeps.
class FilamentPainter {
public:
  FilamentPainter(std::int64_t height, std::int64_t width);
  /// Adds contrast * weight * (1 + (r/R)^2)^((1-p)/2), r the distance to the curve, faded to 0 at 8 R.
  void add(const Raster& image, const std::vector<CurvePoint>& curve, double flat_radius, double p, double contrast);

private:
  std::vector<float> nearest_;  // squared distance to the curve
  std::vector<float> weight_;   // of the nearest point
};

/// Adds weight / (1 + (r/R)^2) (weight [height, width]; a Plummer profile of p = 3) along the line where g [height,
/// width] equals `level`, r = |g - level| / |grad g| its distance to first order and R the `radius` in pixels.
void add_contour_line(const Raster& image, const float* g, double level, double radius, const float* weight);

}  // namespace cirrus::sky
