// The exact block projection and the Gauss-Newton solve.
#include "enhance/consistency.h"

#include "base/signals.h"

namespace cirrus::enhance {
namespace {

constexpr double kLargestT = 300;     // sinh stays finite in float64
constexpr double kLargestStep = 1;    // of a correction in one outer step: linearisation holds about so far
constexpr double kInnerTolerance = 1e-3, kOuterTolerance = 5e-3;

at::Tensor sinh_of(const at::Tensor& t) { return at::sinh(t.clamp(-kLargestT, kLargestT)); }

double inner_product(const at::Tensor& a, const at::Tensor& b) { return (a * b).sum().item<double>(); }

}  // namespace

at::Tensor project_blocks(const at::Tensor& t, const at::Tensor& q, std::int64_t s) {
  std::vector<std::int64_t> shape = t.sizes().vec();
  const std::int64_t h = q.size(0), w = q.size(1);
  std::vector<std::int64_t> blocked(shape.begin(), shape.end() - 2);
  blocked.insert(blocked.end(), {h, s, w, s});
  const at::Tensor x = t.to(at::kDouble).clamp(-kLargestT, kLargestT).reshape(blocked);
  const at::Tensor plus = x.exp().mean(at::IntArrayRef{-3, -1}, true), minus = (-x).exp().mean(at::IntArrayRef{-3, -1}, true);
  const at::Tensor target = q.to(at::kDouble).view({h, 1, w, 1});
  // u = exp(d), the positive root, without cancellation on either side of zero.
  const at::Tensor root = (target.square() + plus * minus).sqrt();
  const at::Tensor u = at::where(target >= 0, (target + root) / plus, minus / (root - target));
  return (x + u.log()).reshape(shape);
}

double chi_square(const at::Tensor& t, const at::Tensor& q, const sky::Degradation& degrade, double noise, const at::Tensor& weight) {
  at::Tensor r = ((q - degrade.apply(sinh_of(t))) / noise).square(), w = weight.defined() ? weight : at::ones_like(q);
  const auto border = static_cast<std::int64_t>(std::ceil(4 * degrade.sigma() / static_cast<double>(degrade.factor())));
  if (2 * border < std::min(q.size(0), q.size(1))) {
    const auto inner = [&](const at::Tensor& x) { return x.narrow(0, border, x.size(0) - 2 * border).narrow(1, border, x.size(1) - 2 * border); };
    r = inner(r);
    w = inner(w);
  }
  return inner_product(r, w) / std::max(w.sum().item<double>(), 1.0);
}

at::Tensor solve_beam(const at::Tensor& t0, const at::Tensor& q, const sky::Degradation& degrade, const BeamSolve& o) {
  const double variance = o.noise * o.noise;
  const at::Tensor weight = o.weight.defined() ? o.weight : at::ones_like(q);
  const sky::Degradation correlate(degrade.height(), degrade.width(), o.correlation, 1);
  // Unit-diagonal correlation: the Gaussian smoothing's own value at distance zero is 1 / (4 pi sigma^2) for its square.
  const double unit = 4 * M_PI * o.correlation * o.correlation;
  const auto prior = [&](const at::Tensor& v) {  // P v = sigma C sigma v, C = G G^T: symmetric also at the borders
    return o.sigma * (unit * correlate.apply(correlate.adjoint(o.sigma * v)));
  };
  // The data term's diagonal for a constant field, from the response at the middle of the map.
  at::Tensor impulse = at::zeros_like(q);
  impulse[q.size(0) / 2][q.size(1) / 2] = 1;
  const at::Tensor spread = degrade.adjoint(impulse);
  const double response = unit * correlate.adjoint(spread).square().sum().item<double>();

  at::Tensor d = at::zeros_like(t0), model = degrade.apply(sinh_of(t0));
  const auto misfit = [&](const at::Tensor& m) { return inner_product((q - m).square(), weight) / variance; };
  double current = misfit(model);
  for (int outer = 0; outer < o.outer_steps; ++outer) {
    signals::check_interrupt();
    const at::Tensor slope = at::cosh((t0 + d).clamp(-kLargestT, kLargestT));
    // (W D J P J D^T W + N) z = W (q - model + D J d); pixels of weight 0 drop out.
    const auto apply = [&](const at::Tensor& z) { return weight * degrade.apply(slope * prior(slope * degrade.adjoint(weight * z))) + variance * z; };
    const at::Tensor right = weight * (q - model + degrade.apply(slope * d));
    const at::Tensor diagonal = response * degrade.apply((slope * o.sigma).square()) + variance;
    at::Tensor z = at::zeros_like(q), r = right.clone(), y = r / diagonal, p = y.clone();
    double rho = inner_product(r, y);
    const double goal = rho * kInnerTolerance * kInnerTolerance;
    for (int inner = 0; inner < o.inner_steps && rho > goal && rho > 0; ++inner) {
      const at::Tensor ap = apply(p);
      const double alpha = rho / inner_product(p, ap);
      z = z + alpha * p;
      r = r - alpha * ap;
      y = r / diagonal;
      const double next = inner_product(r, y);
      p = y + (next / rho) * p;
      rho = next;
    }
    const at::Tensor step = (prior(slope * degrade.adjoint(weight * z)) - d).clamp(-kLargestStep, kLargestStep);
    // Backtracking: without it one bright pixel's overshoot through sinh undoes the whole map.
    double length = 1, best = current;
    at::Tensor chosen, chosen_model;
    for (int halving = 0; halving < 8; ++halving, length /= 2) {
      const at::Tensor trial = d + length * step, trial_model = degrade.apply(sinh_of(t0 + trial));
      const double value = misfit(trial_model);
      if (std::isfinite(value) && value < best) {
        best = value;
        chosen = trial;
        chosen_model = trial_model;
        break;
      }
    }
    if (!chosen.defined()) break;
    const bool settled = current - best < kOuterTolerance * current && length == 1;
    d = chosen;
    model = chosen_model;
    current = best;
    if (settled) break;
  }
  return t0 + d;
}

}  // namespace cirrus::enhance
