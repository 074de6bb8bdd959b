// Student's t distribution, for prediction intervals from few ensemble members: with 8 members a Gaussian interval
// covers too little.
#pragma once

namespace cirrus::metrics {

/// Regularised incomplete beta function I_x(a, b), 0 <= x <= 1, a, b > 0, by Lentz's continued fraction (Numerical
/// Recipes 6.4).
double incomplete_beta(double a, double b, double x);

/// P(T <= t) for `dof` > 0 degrees of freedom.
double student_t_cdf(double t, double dof);

/// The t with P(T <= t) = p, 0 < p < 1, to a relative 1e-13. Throws Error(usage) outside.
double student_t_quantile(double p, double dof);

}  // namespace cirrus::metrics
