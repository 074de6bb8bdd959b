// Small plots as inline SVG for the report: curves and bars with axes, drawn in the page's own text colour so that they
// fit a light and a dark page. Figures for papers are made elsewhere, with gnuplot.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cirrus::enhance {

/// The colour of the truth among curves; other numbers are places in the palette, repeated after eight.
inline constexpr std::size_t kTruthColor = std::numeric_limits<std::size_t>::max();

struct Curve {
  std::string label;
  std::vector<double> x, y;  ///< points that are not finite (or not positive on a logarithmic axis) are left out
  std::size_t color = 0;
  bool dashed = false;
};

struct Axes {
  std::string x_label, y_label;
  bool log_y = false;                 ///< between 1e-3 and 1e2 at most
  std::optional<double> reference_y;  ///< a thin horizontal line: what is right
  std::optional<double> marker_x;     ///< a dashed vertical line
};

/// An <svg> element with the curves and a legend.
std::string line_plot(const std::vector<Curve>& curves, const Axes& axes);

/// An <svg> element with one bar a value, from zero.
std::string bar_plot(const std::vector<double>& values, const Axes& axes, std::size_t color);

/// Text for HTML and XML: & < > " ' replaced.
std::string escaped(std::string_view text);

}  // namespace cirrus::enhance
