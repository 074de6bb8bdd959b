// The projection of blocks on the CPU: a row of blocks at a time, whose pixels stay in the cache between the sums and
// the shift.
#include "kernels/block_flux.h"

#include <cmath>

#include "kernels/exponential.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

/// Adds exp(t) and exp(-t) of a line to `plus` and `minus`.
CIRRUS_DISPATCH void add_exponentials(const double* __restrict t, double* __restrict plus, double* __restrict minus,
                                      std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double e = exponential(std::min(std::max(t[i], -kLargestT), kLargestT));
    plus[i] += e;
    minus[i] += 1.0 / e;
  }
}

/// The shift u = exp(d) of each block from its sums, which lie in `plus` and `minus` by column.
CIRRUS_DISPATCH void solve(const double* __restrict plus, const double* __restrict minus, const double* __restrict q,
                           double* __restrict u, std::int64_t blocks, std::int64_t s) {
  const double pixels = static_cast<double>(s * s);
  for (std::int64_t b = 0; b < blocks; ++b) {
    double p = 0, m = 0;
    for (std::int64_t i = b * s; i < (b + 1) * s; ++i) {
      p += plus[i];
      m += minus[i];
    }
    p /= pixels;
    m /= pixels;
    // The positive root, without cancellation on either side of zero.
    const double root = std::sqrt(q[b] * q[b] + p * m);
    u[b] = q[b] >= 0 ? (q[b] + root) / p : m / (root - q[b]);
  }
}

CIRRUS_DISPATCH void shift_line(const double* __restrict t, const double* __restrict d, double* __restrict out,
                                std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = std::min(std::max(t[i], -kLargestT), kLargestT) + d[i];
}

}  // namespace

namespace cpu {

at::Tensor project_blocks(const at::Tensor& t, const at::Tensor& q, std::int64_t s) {
  const at::Tensor out = at::empty_like(t);
  const std::int64_t h = q.size(0), w = q.size(1), line = s * w,
                     maps = t.numel() / std::max<std::int64_t>(1, s * h * line);
  parallel(maps * h, kGrain / (s * line), [&](std::int64_t r, std::int64_t end) {
    std::vector<double> plus(static_cast<std::size_t>(line)), minus(plus), shift(plus), u(static_cast<std::size_t>(w));
    for (; r < end; ++r) {
      const double* from = data<double>(t) + r * s * line;
      double* to = data<double>(out) + r * s * line;
      std::fill(plus.begin(), plus.end(), 0.0);
      std::fill(minus.begin(), minus.end(), 0.0);
      for (std::int64_t y = 0; y < s; ++y) add_exponentials(from + y * line, plus.data(), minus.data(), line);
      solve(plus.data(), minus.data(), data<double>(q) + r % h * w, u.data(), w, s);
      for (std::int64_t b = 0; b < w; ++b)
        std::fill_n(shift.begin() + b * s, s, std::log(u[static_cast<std::size_t>(b)]));
      for (std::int64_t y = 0; y < s; ++y) shift_line(from + y * line, shift.data(), to + y * line, line);
    }
  });
  return out;
}

}  // namespace cpu
}  // namespace cirrus::kernels
