// The incomplete beta function and its inverse along t.
#include "metrics/student_t.h"

#include <cmath>

#include "base/errors.h"

namespace cirrus::metrics {
namespace {

/// The continued fraction of I_x(a, b), which converges fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kPrecision = 1e-16;
  const auto away_from_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m <= 10000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    value *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    value *= d * c;
    if (std::abs(d * c - 1) <= kPrecision) break;
  }
  return value;
}

/// P(T > t) for t >= 0, accurate in the tail and near the centre.
double upper_tail(double t, double dof) { return 0.5 * incomplete_beta(dof / 2, 0.5, dof / (dof + t * t)); }

}  // namespace

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double log_front = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  const double front = std::exp(log_front);
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double student_t_cdf(double t, double dof) { return t >= 0 ? 1 - upper_tail(t, dof) : upper_tail(-t, dof); }

double student_t_quantile(double p, double dof) {
  if (!(p > 0 && p < 1) || !(dof > 0))
    throw Error(ExitCode::usage, "Student's t quantile needs 0 < p < 1 and positive degrees of freedom");
  if (p == 0.5) return 0;
  if (p < 0.5) return -student_t_quantile(1 - p, dof);
  const double tail = 1 - p;
  double low = 0, high = 1;
  while (upper_tail(high, dof) > tail) high *= 2;
  // The tail falls monotonically, so halving always works; 200 halvings end at neighbouring doubles.
  for (int i = 0; i < 200 && high - low > 1e-16 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (upper_tail(middle, dof) > tail ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace cirrus::metrics
