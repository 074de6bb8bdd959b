// Windows, their matrices from products of beam rows, and their factors.
#include "enhance/local_inverse.h"

#include <algorithm>
#include <cmath>

namespace cirrus::enhance {
namespace {

constexpr std::int64_t kCore = 8;         // data pixels a side that a window adds to its neighbours'
constexpr std::int64_t kMostOverlap = 8;  // wider beams converge more slowly instead of costing without bound
constexpr std::int64_t kAtOnce = 32;      // windows whose matrices are built together
constexpr double kRidge = 1e-6;           // of the unit diagonal: the factors are kept in float32

std::int64_t overlap_of(std::int64_t factor, double sigma) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(3 * sigma / static_cast<double>(factor))), 2,
                                  kMostOverlap);
}

/// A row of K for each data pixel of a window: [size, size factor + 2 reach].
at::Tensor beam_rows(std::int64_t size, std::int64_t factor, std::int64_t reach, double sigma) {
  const at::Tensor sky = at::arange(size * factor + 2 * reach, at::kDouble),
                   fine = at::arange(size * factor, at::kDouble) + static_cast<double>(reach);
  const at::Tensor k =
      (-(fine.unsqueeze(1) - sky).square() / (2 * sigma * sigma)).exp() / (std::sqrt(2 * M_PI) * sigma);
  return k.view({size, factor, -1}).mean(1);
}

at::Tensor pairs(const at::Tensor& rows) { return (rows.unsqueeze(1) * rows.unsqueeze(0)).flatten(0, 1); }

}  // namespace

LocalInverse::Axis LocalInverse::make_axis(std::int64_t pixels, std::int64_t overlap) {
  Axis a;
  a.size = std::min(kCore + 2 * overlap, pixels);
  for (std::int64_t core = 0; core < pixels; core += kCore) {
    const std::int64_t start = std::clamp<std::int64_t>(core - overlap, 0, pixels - a.size);
    if (a.start.empty() || start != a.start.back()) a.start.push_back(start);
  }
  const auto windows = static_cast<std::int64_t>(a.start.size());
  a.share = at::zeros({windows, a.size}, at::kDouble);
  std::vector<double> total(static_cast<std::size_t>(pixels), 0.0);
  auto share = a.share.accessor<double, 2>();
  for (std::int64_t i = 0; i < windows; ++i) {
    const std::int64_t start = a.start[static_cast<std::size_t>(i)];
    for (std::int64_t k = 0; k < a.size; ++k) {  // falls towards edges that other windows cover
      const std::int64_t left = start > 0 ? k + 1 : overlap + 1,
                         right = start + a.size < pixels ? a.size - k : overlap + 1;
      share[i][k] = static_cast<double>(std::min({left, right, overlap + 1}));
      total[static_cast<std::size_t>(start + k)] += share[i][k];
    }
  }
  for (std::int64_t i = 0; i < windows; ++i)
    for (std::int64_t k = 0; k < a.size; ++k)
      share[i][k] /= total[static_cast<std::size_t>(a.start[static_cast<std::size_t>(i)] + k)];
  return a;
}

double LocalInverse::bytes_per_pixel(std::int64_t factor, double sigma) {
  const double side = static_cast<double>(kCore + 2 * overlap_of(factor, sigma)), pixels = side * side;
  return pixels * pixels * 4 / static_cast<double>(kCore * kCore);
}

LocalInverse::LocalInverse(std::int64_t height, std::int64_t width, std::int64_t factor, double sigma)
    : height_(height),
      width_(width),
      factor_(factor),
      reach_(static_cast<std::int64_t>(std::ceil(4 * sigma))),
      rows_(make_axis(height, overlap_of(factor, sigma))),
      columns_(make_axis(width, overlap_of(factor, sigma))) {
  row_pairs_ = pairs(beam_rows(rows_.size, factor, reach_, sigma));
  column_pairs_ = pairs(beam_rows(columns_.size, factor, reach_, sigma)).t().contiguous();
  const auto axis_index = [](const Axis& a) {
    return at::tensor(a.start).unsqueeze(1) + at::arange(a.size, at::kLong);
  };
  const at::Tensor y = axis_index(rows_), x = axis_index(columns_);
  const std::int64_t windows = y.size(0) * x.size(0);
  index_ = (y.view({-1, 1, rows_.size, 1}) * width + x.view({1, -1, 1, columns_.size})).reshape({windows, -1});
  blend_ = (rows_.share.view({-1, 1, rows_.size, 1}) * columns_.share.view({1, -1, 1, columns_.size}))
               .reshape({windows, -1})
               .sqrt();
}

void LocalInverse::factorize(const at::Tensor& variance, const at::Tensor& noise) {
  const std::int64_t across = static_cast<std::int64_t>(columns_.start.size()), windows = index_.size(0),
                     pixels = index_.size(1);
  const at::Tensor sky = at::constant_pad_nd(variance, {reach_, reach_, reach_, reach_});
  const at::Tensor window_noise = noise.reshape({-1}).index_select(0, index_.view(-1)).view(index_.sizes());
  if (!factors_.defined()) {
    factors_ = at::empty({windows, pixels, pixels}, at::kFloat);
    scale_ = at::empty({windows, pixels}, at::kDouble);
  }
  for (std::int64_t first = 0; first < windows; first += kAtOnce) {
    const std::int64_t n = std::min(kAtOnce, windows - first);
    std::vector<at::Tensor> parts;
    for (std::int64_t i = first; i < first + n; ++i)
      parts.push_back(
          sky.narrow(0, rows_.start[static_cast<std::size_t>(i / across)] * factor_, rows_.size * factor_ + 2 * reach_)
              .narrow(1, columns_.start[static_cast<std::size_t>(i % across)] * factor_,
                      columns_.size * factor_ + 2 * reach_));
    // K diag(v) K^T, one axis after the other: [windows, row pair, column pair] -> [windows, pixel, pixel].
    at::Tensor m = at::matmul(at::matmul(row_pairs_, at::stack(parts)), column_pairs_)
                       .view({n, rows_.size, rows_.size, columns_.size, columns_.size})
                       .permute({0, 1, 3, 2, 4})
                       .reshape({n, pixels, pixels});
    const at::Tensor own = window_noise.narrow(0, first, n), scale = (m.diagonal(0, 1, 2) + own).rsqrt();
    m.mul_(scale.unsqueeze(2)).mul_(scale.unsqueeze(1));
    m.diagonal(0, 1, 2).add_(own * scale.square() + kRidge);
    factors_.narrow(0, first, n).copy_(at::linalg_cholesky(m));
    scale_.narrow(0, first, n).copy_(scale);
  }
  scale_.mul_(blend_);
}

at::Tensor LocalInverse::apply(const at::Tensor& r) const {
  const at::Tensor windows = r.reshape({-1}).index_select(0, index_.view(-1)).view(index_.sizes()) * scale_;
  const at::Tensor largest = windows.abs().amax(1, true).clamp_min(1e-300);  // float32 has less range than maps
  const at::Tensor solved = at::cholesky_solve((windows / largest).to(at::kFloat).unsqueeze(2), factors_).squeeze(2);
  at::Tensor out = at::zeros({height_ * width_}, at::kDouble);
  out.index_add_(0, index_.view(-1), (solved.to(at::kDouble) * largest * scale_).view(-1));
  return out.view({height_, width_});
}

}  // namespace cirrus::enhance
