// Marching squares. The Euler characteristic is the sum of the boundary's turning angles over 2 pi: a cell with one
// corner above turns it by +90 degrees, one with three corners above by -90, all others (diagonals on average) not at
// all (Gray 1971).
#include "metrics/minkowski.h"

#include <array>
#include <numbers>

#include "base/errors.h"
#include "metrics/map.h"

namespace cirrus::metrics {
namespace {

/// Sums over the cells of one threshold.
struct Sums {
  double length = 0;
  int64_t one_above = 0, three_above = 0;
};

/// Adds the cell with corners a b / c d, given relative to the threshold.
void add_cell(double a, double b, double c, double d, Sums& sums) {
  const int above = (a > 0) + (b > 0) + (c > 0) + (d > 0);
  if (above == 0 || above == 4) return;
  sums.one_above += above == 1;
  sums.three_above += above == 3;
  // Crossing of an edge from its first corner; only edges whose ends lie on different sides are asked for.
  const auto crossing = [](double from, double to) { return from / (from - to); };
  const auto corner = [&](double here, double beside, double below) {
    return std::hypot(crossing(here, beside), crossing(here, below));
  };
  const bool diagonal = above == 2 && (a > 0) == (d > 0);
  if (diagonal) {
    // Two corners are cut off, either the pair above or the pair below: the mean of both ways.
    sums.length += 0.5 * (corner(a, b, c) + corner(d, c, b) + corner(b, a, d) + corner(c, d, a));
  } else if (above == 2) {
    const bool vertical = (a > 0) == (c > 0);
    const double first = vertical ? crossing(a, b) : crossing(a, c);
    const double second = vertical ? crossing(c, d) : crossing(b, d);
    sums.length += std::hypot(1, first - second);
  } else {
    const bool alone = above == 1;
    if ((a > 0) == alone)
      sums.length += corner(a, b, c);
    else if ((b > 0) == alone)
      sums.length += corner(b, a, d);
    else if ((c > 0) == alone)
      sums.length += corner(c, d, a);
    else
      sums.length += corner(d, c, b);
  }
}

}  // namespace

MinkowskiFunctionals minkowski_functionals(const at::Tensor& map, std::span<const double> thresholds) {
  const at::Tensor x = as_map(map, "the map");
  const int64_t rows = x.size(0), columns = x.size(1);
  if (rows < 2 || columns < 2) throw Error(ExitCode::bad_data, "Minkowski functionals need at least 2 x 2 pixels");
  const double* p = x.const_data_ptr<double>();
  const double cells = static_cast<double>((rows - 1) * (columns - 1));
  MinkowskiFunctionals functionals;
  for (const double threshold : thresholds) {
    Sums sums;
    int64_t above = 0;
    for (int64_t i = 0; i < rows * columns; ++i) above += p[i] > threshold;
    for (int64_t i = 0; i + 1 < rows; ++i) {
      for (const double* q = p + i * columns; q + 1 < p + (i + 1) * columns; ++q)
        add_cell(q[0] - threshold, q[1] - threshold, q[columns] - threshold, q[columns + 1] - threshold, sums);
    }
    functionals.area.push_back(static_cast<double>(above) / static_cast<double>(rows * columns));
    functionals.boundary.push_back(sums.length / 4 / cells);
    functionals.euler.push_back(static_cast<double>(sums.one_above - sums.three_above) / 4 / cells);
  }
  return functionals;
}

GaussianMinkowski gaussian_minkowski(double threshold, double sigma, double gradient2) {
  const double nu = threshold / sigma, tau = gradient2 / (2 * sigma * sigma), fall = std::exp(-nu * nu / 2);
  const double two_pi = 2 * std::numbers::pi;
  return {.area = 0.5 * std::erfc(nu / std::numbers::sqrt2),
          .boundary = std::sqrt(tau) / 8 * fall,
          .euler = tau / (two_pi * std::sqrt(two_pi)) * nu * fall};
}

}  // namespace cirrus::metrics
