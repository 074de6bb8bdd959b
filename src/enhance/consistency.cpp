// The Gauss-Newton solve.
#include "enhance/consistency.h"

#include "base/signals.h"
#include "enhance/local_inverse.h"
#include "enhance/mirror.h"
#include "kernels/block_flux.h"

namespace cirrus::enhance {
namespace {

constexpr double kLargestStep = 1;  // of a correction in one outer step: linearisation holds about so far
constexpr double kInnerTolerance = 1e-2;
constexpr double kFirstShare = 0.3, kLeastShare = 0.03;  // of a residual that one outer step leaves
constexpr double kPullBack = 3;           // residuals beyond so many sigmas are removed before the prior is asked
constexpr double kNoise = 4;              // residuals below so many sigmas never count as made worse
constexpr double kOutside = 1;            // prior sigma of T far outside the map, where nothing is known
constexpr std::int64_t kTileMargin = 24;  // pixels of q around a tile that are solved with it
constexpr double kNoData = 1e12;          // noise variance of pixels without data, over the largest signal's

at::Tensor sinh_of(const at::Tensor& t) { return at::sinh(t.clamp(-kernels::kLargestT, kernels::kLargestT)); }

double inner_product(const at::Tensor& a, const at::Tensor& b) { return (a * b).sum().item<double>(); }

}  // namespace

double chi_square(const at::Tensor& t, const at::Tensor& q, const sky::Degradation& degrade, double noise,
                  const at::Tensor& weight) {
  at::Tensor r = ((q - degrade.apply(sinh_of(t))) / noise).square(), w = weight.defined() ? weight : at::ones_like(q);
  const auto border = static_cast<std::int64_t>(std::ceil(4 * degrade.sigma() / static_cast<double>(degrade.factor())));
  if (2 * border < std::min(q.size(0), q.size(1))) {
    const auto inner = [&](const at::Tensor& x) {
      return x.narrow(0, border, x.size(0) - 2 * border).narrow(1, border, x.size(1) - 2 * border);
    };
    r = inner(r);
    w = inner(w);
  }
  return inner_product(r, w) / std::max(w.sum().item<double>(), 1.0);
}

namespace {

/// Largest of each pixel's neighbourhood of `size` x `size`.
at::Tensor local_maximum(const at::Tensor& x, std::int64_t size) {
  return at::max_pool2d(x.unsqueeze(0), size, 1, size / 2).squeeze(0);
}

/// Pixels of q by which a map is continued: as far as its beam reaches, and a little.
std::int64_t padding_of(const sky::Degradation& degrade) {
  return static_cast<std::int64_t>(std::ceil(4 * degrade.sigma() / static_cast<double>(degrade.factor()))) + 2;
}

/// The problem with the map continued by `pad` low-resolution pixels on each side.
class BeamProblem {
public:
  BeamProblem(const at::Tensor& t, const at::Tensor& q, const sky::Degradation& degrade, const BeamSolve& o)
      : options_(o),
        factor_(degrade.factor()),
        pad_(padding_of(degrade)),
        height_(t.size(0)),
        width_(t.size(1)),
        start_(continued(t, pad_ * factor_)),
        q_(continued(q, pad_)),
        weight_(at::constant_pad_nd(o.weight.defined() ? o.weight : at::ones_like(q), {pad_, pad_, pad_, pad_})),
        degrade_(start_.size(0), start_.size(1), degrade.sigma(), factor_),
        correlate_(start_.size(0), start_.size(1), o.correlation, 1),
        smooth_(start_.size(0), start_.size(1), static_cast<double>(factor_), 1),
        inverse_(q_.size(0), q_.size(1), factor_, std::hypot(degrade.sigma(), o.correlation)),
        variance_(o.noise * o.noise),
        unit_(4 * M_PI * o.correlation * o.correlation) {
    // How far outside the map, 0 to 1 over two low-resolution pixels.
    const auto outside = [&](std::int64_t n) {
      const at::Tensor i = at::arange(n + 2 * pad_ * factor_, at::kDouble) - static_cast<double>(pad_ * factor_);
      return (at::maximum(-i, i - static_cast<double>(n - 1)) / static_cast<double>(2 * factor_)).clamp(0, 1);
    };
    const at::Tensor ramp = at::maximum(outside(height_).unsqueeze(1), outside(width_));
    sigma_ = (continued(o.sigma, pad_ * factor_).square() + (kOutside * ramp).square()).sqrt();
    if (o.low.defined()) {
      low_ = continued(o.low, pad_ * factor_);
      high_ = continued(o.high, pad_ * factor_);
    }
  }

  BeamSolution solve() {
    at::Tensor t = start_.clone(), residual = misfit_of(t), share = at::full_like(q_, kFirstShare);
    double current = mean_square(residual);
    at::Tensor best = t;
    double least = current;
    for (int outer = 0; outer < options_.outer_steps && least > 0; ++outer) {
      signals::check_interrupt();
      const at::Tensor around = local_maximum(residual.abs(), 3);
      const at::Tensor step = newton_step(t, residual, around, share);
      // A step that makes residuals worse somewhere is shortened there alone: one bright pixel must not hold up a map.
      const at::Tensor limit = around.clamp_min(kNoise * options_.noise);
      at::Tensor length = at::ones_like(q_), first_bad, trial, trial_residual;
      for (int shortening = 0; shortening < 5; ++shortening) {
        trial = t + (shortening == 0 ? step : expand(length) * step).clamp(-kLargestStep, kLargestStep);
        if (low_.defined()) trial = at::minimum(at::maximum(trial, low_), high_);
        trial_residual = misfit_of(trial);
        const at::Tensor bad = local_maximum((trial_residual.abs() > limit).to(at::kDouble), 5);
        if (shortening == 0) first_bad = bad;
        if (!bad.any().item<bool>()) break;
        length = at::where(bad > 0, length / 2, length);
      }
      share = at::where(first_bad > 0, (share * 2).clamp_max(1), (share / 2).clamp_min(kLeastShare));
      const double next = mean_square(trial_residual);
      const bool settled = next > 0.95 * current && next < 1.5;
      t = trial;
      residual = trial_residual;
      current = next;
      if (next < least) {
        least = next;
        best = t;
      }
      if (settled) break;
    }
    const auto inside = [&](const at::Tensor& x, std::int64_t scale) {
      return x.narrow(0, pad_ * scale, height_ / factor_ * scale)
          .narrow(1, pad_ * scale, width_ / factor_ * scale)
          .contiguous();
    };
    return {inside(best, factor_), inside(degrade_.apply(sinh_of(best)), 1)};
  }

private:
  static at::Tensor continued(const at::Tensor& map, std::int64_t pad) { return mirror_pad(map, pad, pad, pad, pad); }

  at::Tensor expand(const at::Tensor& x) const {
    return smooth_.apply(x.repeat_interleave(factor_, 0).repeat_interleave(factor_, 1));
  }

  at::Tensor misfit_of(const at::Tensor& t) const { return weight_ * (q_ - degrade_.apply(sinh_of(t))); }

  /// Over the data, in units of their variance.
  double mean_square(const at::Tensor& residual) const {
    return inner_product(residual, residual) / variance_ / std::max(weight_.sum().item<double>(), 1.0);
  }

  /// P v = sigma C sigma v with C = G G^T of unit diagonal: symmetric also at the borders.
  at::Tensor prior(const at::Tensor& v) const {
    return sigma_ * (unit_ * correlate_.apply(correlate_.adjoint(sigma_ * v)));
  }

  /// Correction of T that removes all of the residual but `share`, and pulls back to the start where the data are
  /// fitted.
  at::Tensor newton_step(const at::Tensor& t, const at::Tensor& residual, const at::Tensor& around,
                         const at::Tensor& share) {
    const at::Tensor slope = at::cosh(t.clamp(-kernels::kLargestT, kernels::kLargestT));
    const at::Tensor noise = (share * around).square().clamp_min(variance_);
    const at::Tensor pull =
        expand((kPullBack * options_.noise / around.clamp_min(1e-300)).square().clamp(0, 1)) * (t - start_);
    const at::Tensor signal = (slope * sigma_).square();
    inverse_.factorize(unit_ * signal, noise + (1 - weight_) * (kNoData * unit_ * degrade_.apply(signal).max()));
    const auto apply = [&](const at::Tensor& z) {
      return weight_ * degrade_.apply(slope * prior(slope * degrade_.adjoint(weight_ * z))) + noise * z;
    };
    at::Tensor z = at::zeros_like(q_), r = residual + weight_ * degrade_.apply(slope * pull),
               y = weight_ * inverse_.apply(r), p = y;
    double rho = inner_product(r, y);
    const double goal = rho * kInnerTolerance * kInnerTolerance;
    for (int inner = 0; inner < options_.inner_steps && rho > goal && rho > 0; ++inner) {
      const at::Tensor ap = apply(p);
      const double alpha = rho / inner_product(p, ap);
      z = z + alpha * p;
      r = r - alpha * ap;
      y = weight_ * inverse_.apply(r);
      const double next = inner_product(r, y);
      p = y + (next / rho) * p;
      rho = next;
    }
    return prior(slope * degrade_.adjoint(weight_ * z)) - pull;
  }

  const BeamSolve& options_;
  const std::int64_t factor_, pad_, height_, width_;
  const at::Tensor start_, q_, weight_;
  at::Tensor sigma_, low_, high_;
  const sky::Degradation degrade_, correlate_, smooth_;
  LocalInverse inverse_;
  const double variance_, unit_;  // unit_: makes C's diagonal 1; a Gaussian's square integrates to 1 / (4 pi sigma^2)
};

}  // namespace

BeamSolution solve_beam(const at::Tensor& t, const at::Tensor& q, const sky::Degradation& degrade,
                        const BeamSolve& options) {
  const std::int64_t h = q.size(0), w = q.size(1), s = degrade.factor(), whole = options.tile + 2 * kTileMargin;
  const auto told = [&](std::int64_t rows, std::int64_t columns) {
    if (options.progress) options.progress(static_cast<double>(rows * columns) / static_cast<double>(h * w));
  };
  const bool one = h <= whole && w <= whole;
  if (one && options.part == 0) {
    BeamSolution out = BeamProblem(t, q, degrade, options).solve();
    told(h, w);
    return out;
  }
  BeamSolution out{at::zeros_like(t), at::zeros_like(q)};
  if (one) return out;
  std::int64_t number = 0;
  for (std::int64_t y = 0; y < h; y += options.tile) {
    for (std::int64_t x = 0; x < w; x += options.tile) {
      if (number++ % options.parts != options.part) continue;
      const std::int64_t top = std::max<std::int64_t>(0, y - kTileMargin),
                         bottom = std::min(h, y + options.tile + kTileMargin);
      const std::int64_t left = std::max<std::int64_t>(0, x - kTileMargin),
                         right = std::min(w, x + options.tile + kTileMargin);
      const auto cut = [&](const at::Tensor& map, std::int64_t scale) {
        return map.defined() ? map.narrow(0, top * scale, (bottom - top) * scale)
                                   .narrow(1, left * scale, (right - left) * scale)
                                   .contiguous()
                             : map;
      };
      BeamSolve part = options;
      part.sigma = cut(options.sigma, s);
      part.low = cut(options.low, s);
      part.high = cut(options.high, s);
      part.weight = cut(options.weight, 1);
      const BeamSolution solved = BeamProblem(cut(t, s), cut(q, 1), degrade, part).solve();
      const std::int64_t rows = std::min(options.tile, h - y), columns = std::min(options.tile, w - x);
      const auto keep = [&](const at::Tensor& from, const at::Tensor& to, std::int64_t scale) {
        to.narrow(0, y * scale, rows * scale)
            .narrow(1, x * scale, columns * scale)
            .copy_(from.narrow(0, (y - top) * scale, rows * scale).narrow(1, (x - left) * scale, columns * scale));
      };
      keep(solved.t, out.t, s);
      keep(solved.degraded, out.degraded, 1);
      told(rows, columns);
    }
  }
  return out;
}

std::int64_t beam_solve_tiles(const sky::Degradation& degrade) {
  const std::int64_t h = degrade.height() / degrade.factor(), w = degrade.width() / degrade.factor(),
                     tile = BeamSolve{}.tile, whole = tile + 2 * kTileMargin;
  return h <= whole && w <= whole ? 1 : ((h + tile - 1) / tile) * ((w + tile - 1) / tile);
}

double beam_solve_pixels(const sky::Degradation& degrade) {
  const double s = static_cast<double>(degrade.factor()), border = 2 * static_cast<double>(padding_of(degrade));
  return (static_cast<double>(degrade.height()) / s + border) * (static_cast<double>(degrade.width()) / s + border);
}

double beam_solve_bytes(const sky::Degradation& degrade) {
  const double s = static_cast<double>(degrade.factor()),
               whole = static_cast<double>(BeamSolve{}.tile + 2 * kTileMargin);
  const double pixels = std::min(static_cast<double>(degrade.height()) / s, whole) *
                        std::min(static_cast<double>(degrade.width()) / s, whole);
  return pixels * (LocalInverse::bytes_per_pixel(degrade.factor(), degrade.sigma()) + 8 * (24 * s * s + 24));
}

}  // namespace cirrus::enhance
