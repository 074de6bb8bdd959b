// Planning of windows and fusion of their estimates.
#include "diffusion/tiling.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "kernels/blend.h"

namespace cirrus::diffusion {
namespace {

constexpr std::int64_t kTrim =
    8;  // pixels at a window's inner border that get no weight: the network pads with zeros there

std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

}  // namespace

TileAxis plan_axis(std::int64_t length, std::int64_t tile, std::int64_t overlap, bool exact, std::int64_t radius,
                   std::int64_t alignment) {
  TileAxis axis;
  axis.length = length;
  axis.tile = tile <= 0 ? length : round_up(tile, alignment);
  if (axis.tile >= length) {
    axis.tile = length;
    axis.starts = {0};
    axis.weights = {std::vector<float>(static_cast<std::size_t>(length), 1.f)};
    return axis;
  }
  const std::int64_t shared = round_up(exact         ? 2 * radius
                                       : overlap < 0 ? axis.tile / 2
                                                     : overlap,
                                       alignment),
                     stride = axis.tile - shared;
  if (stride < alignment)
    throw Error(ExitCode::usage,
                "Tiles of " + std::to_string(axis.tile) + " pixels cannot overlap by " + std::to_string(shared),
                exact ? "--overlap exact needs --tile of at least " + std::to_string(2 * radius + alignment) +
                            ", better 3 times that"
                      : "use a smaller --overlap or a larger --tile");
  for (std::int64_t at = 0; at + axis.tile < length; at += stride) axis.starts.push_back(at);
  axis.starts.push_back(length - axis.tile);

  std::vector<double> total(static_cast<std::size_t>(length), 0.0);
  std::vector<std::vector<double>> raw;
  for (std::size_t t = 0; t < axis.starts.size(); ++t) {
    auto& w = raw.emplace_back(static_cast<std::size_t>(axis.tile), 1.0);
    const std::int64_t start = axis.starts[t], end = start + axis.tile;
    // Overlap with the neighbours as it is (the last window may overlap more).
    const std::int64_t before = t > 0 ? axis.starts[t - 1] + axis.tile - start : 0;
    const std::int64_t after = t + 1 < axis.starts.size() ? end - axis.starts[t + 1] : 0;
    for (std::int64_t i = 0; i < axis.tile; ++i) {
      const auto ramp = [&](std::int64_t inside, std::int64_t width) {  // inside: pixels from that border
        if (width == 0 || inside >= width) return 1.0;
        if (exact) return 2 * inside >= width ? 1.0 : 0.0;  // cut in the middle of the overlap, whose width is even
        const std::int64_t trim = std::min(kTrim, (width - 1) / 4);
        const double u = (static_cast<double>(inside - trim) + 0.5) / static_cast<double>(width - 2 * trim);
        return u <= 0 ? 0.0 : u >= 1 ? 1.0 : 0.5 - 0.5 * std::cos(M_PI * u);
      };
      w[static_cast<std::size_t>(i)] = ramp(i, before) * ramp(axis.tile - 1 - i, after);
      total[static_cast<std::size_t>(start + i)] += w[static_cast<std::size_t>(i)];
    }
  }
  for (std::size_t t = 0; t < raw.size(); ++t) {
    auto& w = axis.weights.emplace_back();
    for (std::size_t i = 0; i < raw[t].size(); ++i)
      w.push_back(static_cast<float>(raw[t][i] / total[static_cast<std::size_t>(axis.starts[t]) + i]));
  }
  return axis;
}

namespace {

at::Tensor stacked(const std::vector<std::vector<float>>& weights, const at::Device& device) {
  std::vector<at::Tensor> rows;
  for (const auto& w : weights) rows.push_back(at::tensor(w));
  return at::stack(rows).to(device);
}

}  // namespace

TiledDenoiser::TiledDenoiser(Denoiser& network, device::Device& device, at::Tensor maps, at::Tensor scalars,
                             TileAxis rows, TileAxis columns, std::int64_t samples_at_once)
    : network_(network),
      device_(device),
      maps_(std::move(maps)),
      scalars_(std::move(scalars)),
      rows_(std::move(rows)),
      columns_(std::move(columns)),
      row_weights_(stacked(rows_.weights, maps_.device())),
      column_weights_(stacked(columns_.weights, maps_.device())),
      samples_at_once_(std::max<std::int64_t>(1, samples_at_once)),
      level_(at::empty({1}, maps_.options())) {}

Conditions TiledDenoiser::conditions(const at::Tensor& maps) const {
  return {maps, scalars_.unsqueeze(0).expand({maps.size(0), -1}), {}};
}

std::vector<TiledDenoiser::Batch> TiledDenoiser::plan(std::int64_t members) const {
  const auto columns = static_cast<std::int64_t>(columns_.starts.size());
  std::vector<Batch> batches;
  for (std::int64_t begin = 0, jobs = members * tiles(); begin < jobs; begin += samples_at_once_) {
    Batch& b = batches.emplace_back();
    std::vector<std::int64_t> row_numbers, column_numbers;
    for (std::int64_t j = begin; j < std::min(jobs, begin + samples_at_once_); ++j) {
      b.members.push_back(j % members);
      row_numbers.push_back(j / members / columns);
      column_numbers.push_back(j / members % columns);
      b.rows.push_back(rows_.starts[static_cast<std::size_t>(row_numbers.back())]);
      b.columns.push_back(columns_.starts[static_cast<std::size_t>(column_numbers.back())]);
    }
    b.row_weights = row_weights_.index_select(0, at::tensor(row_numbers).to(maps_.device()));
    b.column_weights = column_weights_.index_select(0, at::tensor(column_numbers).to(maps_.device()));
  }
  return batches;
}

/// One window: members share its maps, and nothing is cut or blended.
at::Tensor TiledDenoiser::whole(const at::Tensor& x) const {
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < x.size(0); begin += samples_at_once_) {
    const std::int64_t n = std::min(samples_at_once_, x.size(0) - begin);
    parts.push_back(network_.denoise(x.narrow(0, begin, n), level_.expand({n}),
                                     conditions(maps_.unsqueeze(0).expand({n, -1, -1, -1}))));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

at::Tensor TiledDenoiser::evaluate(const Evaluation& evaluation, const at::Tensor& x) const {
  if (tiles() == 1) return whole(x);
  at::Tensor out = at::zeros_like(x);
  for (const Batch& b : evaluation.batches) {
    const auto window = [&](const at::Tensor& field, std::size_t k) {
      return field.narrow(1, b.rows[k], rows_.tile).narrow(2, b.columns[k], columns_.tile);
    };
    std::vector<at::Tensor> states, maps;
    for (std::size_t k = 0; k < b.members.size(); ++k) {
      states.push_back(window(x[b.members[k]], k));
      maps.push_back(window(maps_, k));
    }
    const auto n = static_cast<std::int64_t>(b.members.size());
    const at::Tensor estimate = network_.denoise(at::stack(states), level_.expand({n}), conditions(at::stack(maps)));
    kernels::blend_windows(out, estimate, b.members, b.rows, b.columns, b.row_weights, b.column_weights);
  }
  return out;
}

at::Tensor TiledDenoiser::operator()(const at::Tensor& x, double sigma) {
  level_.copy_(at::full({1}, sigma, at::kFloat));
  Evaluation& e = evaluations_[x.size(0)];
  if (!e.warm && tiles() > 1) e.batches = plan(x.size(0));
  if (e.warm && !e.graph && e.recordable) {
    e.x = x.clone();
    e.graph = device_.capture([&] { e.estimate = evaluate(e, e.x); });
    e.recordable = e.graph != nullptr;
  }
  e.warm = true;
  at::Tensor estimate;
  if (e.graph) {
    e.x.copy_(x);
    e.graph->replay();
    estimate = e.estimate.clone();  // the next replay writes over it
  } else {
    estimate = evaluate(e, x);
  }
  device_.end_step();
  return estimate;
}

}  // namespace cirrus::diffusion
