// One pass over the pixels: the members of a pixel are sorted once and give every figure, so memory does not grow with
// N.
#include "metrics/ensemble.h"

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "metrics/map.h"
#include "metrics/student_t.h"

namespace cirrus::metrics {
namespace {

/// Sums over the pixels of one row, added up row by row to keep rounding small.
struct Sums {
  double crps = 0, variance = 0, square_error = 0, inside68 = 0, inside95 = 0;
  Sums& operator+=(const Sums& o) {
    crps += o.crps;
    variance += o.variance;
    square_error += o.square_error;
    inside68 += o.inside68;
    inside95 += o.inside95;
    return *this;
  }
};

}  // namespace

EnsembleFigures ensemble_figures(const at::Tensor& members, const at::Tensor& truth, const Transform& transform) {
  const at::Tensor t_map = as_map(truth, "the truth");
  if (members.dim() != 3 || members.size(0) < 2 || members[0].sizes() != t_map.sizes())
    throw Error(ExitCode::bad_data, "calibration needs two or more members of the truth's size",
                "give members as a cube with the member along the first axis");
  const at::Tensor cube = members.to(at::kCPU, at::kDouble).contiguous();
  const int64_t n = cube.size(0), rows = t_map.size(0), columns = t_map.size(1), pixels = t_map.numel();
  const double count = static_cast<double>(n);
  const double widen = std::sqrt(1 + 1 / count);
  const double q68 = student_t_quantile(0.5 + 0.6826895 / 2, count - 1) * widen;
  const double q95 = student_t_quantile(0.5 + 0.95 / 2, count - 1) * widen;

  std::vector<int64_t> rank(n + 1);
  std::vector<double> x(n);
  Sums total;
  for (int64_t row = 0; row < rows; ++row) {
    Sums sums;
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t pixel = row * columns + column;
      const double t = transform.forward(t_map.const_data_ptr<double>()[pixel]);
      for (int64_t i = 0; i < n; ++i) x[i] = transform.forward(cube.const_data_ptr<double>()[i * pixels + pixel]);
      std::sort(x.begin(), x.end());
      const double mean = std::accumulate(x.begin(), x.end(), 0.0) / count;
      double variance = 0, distance = 0, pairs = 0;
      int64_t below = 0;
      for (int64_t i = 0; i < n; ++i) {
        variance += (x[i] - mean) * (x[i] - mean);
        distance += std::abs(x[i] - t);
        pairs += static_cast<double>(2 * i + 1 - n) * x[i];  // sum over i<j of |x_i - x_j| once sorted
        below += x[i] < t;
      }
      variance /= count - 1;
      const double std = std::sqrt(variance), error = std::abs(t - mean);
      sums += {distance / count - pairs / (count * (count - 1)), variance, error * error, error < q68 * std ? 1.0 : 0.0,
               error < q95 * std ? 1.0 : 0.0};
      ++rank[below];
    }
    total += sums;
  }

  const double area = static_cast<double>(pixels);
  EnsembleFigures figures{n, total.crps / area, total.inside68 / area, total.inside95 / area, 0, {}};
  const double skill = std::max(std::sqrt(total.square_error / area), 1e-300);
  figures.spread_skill = std::sqrt(total.variance / area * (count + 1) / count) / skill;
  for (const int64_t pixels_of_rank : rank) figures.rank.push_back(static_cast<double>(pixels_of_rank) / area);
  return figures;
}

}  // namespace cirrus::metrics
