// Fusion of windows' estimates.
#include "diffusion/tiling.h"

#include <algorithm>

#include "base/log.h"
#include "device/memory_error.h"
#include "kernels/blend.h"

namespace cirrus::diffusion {

TiledDenoiser::TiledDenoiser(Denoiser& network, device::Device& device, at::Tensor maps, at::Tensor scalars,
                             TileAxis rows, TileAxis columns, std::int64_t samples_at_once)
    : network_(network),
      device_(device),
      maps_(std::move(maps)),
      scalars_(std::move(scalars)),
      rows_(std::move(rows)),
      columns_(std::move(columns)),
      row_weights_(weights_of(rows_, maps_.device())),
      column_weights_(weights_of(columns_, maps_.device())),
      samples_at_once_(std::max<std::int64_t>(1, samples_at_once)),
      level_(at::empty({1}, maps_.options())) {}

TiledDenoiser::TiledDenoiser(Denoiser& network, device::Device& device, at::Tensor maps, at::Tensor scalars,
                             Seams seams, TileAxis columns, std::int64_t samples_at_once)
    : TiledDenoiser(network, device, std::move(maps), std::move(scalars), seams.rows(), std::move(columns),
                    samples_at_once) {
  seams_.emplace(std::move(seams));
}

Conditions TiledDenoiser::conditions(const at::Tensor& maps) const {
  return {maps, scalars_.unsqueeze(0).expand({maps.size(0), -1}), {}};
}

std::vector<TiledDenoiser::Batch> TiledDenoiser::plan(std::int64_t members) const {
  const auto columns = static_cast<std::int64_t>(columns_.starts.size());
  std::vector<Batch> batches;
  for (std::int64_t begin = 0, jobs = members * tiles(); begin < jobs; begin += samples_at_once_) {
    Batch& b = batches.emplace_back();
    b.first = begin;
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
  if (tiles() == 1 && !seams_) return whole(x);
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
    if (seams_)
      seams_->take(estimate, b.first, b.row_weights, b.column_weights, out, evaluation.sent);
    else
      kernels::blend_windows(out, estimate, b.members, b.rows, b.columns, b.row_weights, b.column_weights);
  }
  return out;
}

/// With as many windows at once as memory holds.
at::Tensor TiledDenoiser::evaluate_strip(Evaluation& e, const at::Tensor& x) {
  if (!e.sent.defined()) e.sent = seams_->outgoing(x.size(0));
  while (true) {
    try {
      return recorded(e, x);
    } catch (const std::exception& error) {
      if (samples_at_once_ == 1 || !device::is_out_of_memory(error)) throw;
      samples_at_once_ /= 2;
      e.batches = plan(x.size(0));
      log::warning("Out of memory on " + device_.name() + ": going on with " + std::to_string(samples_at_once_) +
                   " windows at once");
    }
  }
}

at::Tensor TiledDenoiser::recorded(Evaluation& e, const at::Tensor& x) {
  if (e.warm && !e.graph && e.recordable) {
    e.x = x.clone();
    e.graph = device_.capture([&] { e.estimate = evaluate(e, e.x); });
    e.recordable = e.graph != nullptr;
  }
  if (!e.graph) return evaluate(e, x);
  e.x.copy_(x);
  e.graph->replay();
  return e.estimate.clone();  // the next replay writes over it
}

at::Tensor TiledDenoiser::operator()(const at::Tensor& x, double sigma) {
  level_.copy_(at::full({1}, sigma, at::kFloat));
  Evaluation& e = evaluations_[x.size(0)];
  if (!e.warm && (tiles() > 1 || seams_)) e.batches = plan(x.size(0));
  at::Tensor estimate = seams_ ? evaluate_strip(e, x) : recorded(e, x);
  e.warm = true;
  device_.end_step();
  if (!seams_) return estimate;
  seams_->join(estimate, e.sent);
  device_.end_step();
  return estimate;
}

}  // namespace cirrus::diffusion
