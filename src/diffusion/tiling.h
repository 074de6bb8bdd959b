// A network applied to a field larger than its memory: windows that overlap, their estimates fused in every sampler
// step, so that all windows work on one state. Two ways to fuse: smooth (raised-cosine weights over the overlap,
// differences bounded) and exact (the overlap covers the receptive field; each pixel comes from a window whose border
// it does not see).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.h"
#include "diffusion/denoiser.h"
#include "diffusion/strips.h"

namespace cirrus::diffusion {

/// Not copied, not shared between threads. Where the device can, an evaluation is recorded once for each number of
/// members and replayed in the following steps.
class TiledDenoiser {
public:
  /// maps: [M, H, W], scalars: [S], of the whole field, on the device; `samples_at_once` bounds memory (windows x
  /// members in a batch).
  TiledDenoiser(Denoiser& network, device::Device& device, at::Tensor maps, at::Tensor scalars, TileAxis rows,
                TileAxis columns, std::int64_t samples_at_once);
  /// Of one strip of the field: maps and states have the strip's rows alone. All processes of the strips evaluate
  /// together. Where memory runs out, a strip goes on with fewer windows at once: the others do not notice.
  TiledDenoiser(Denoiser& network, device::Device& device, at::Tensor maps, at::Tensor scalars, Seams seams,
                TileAxis columns, std::int64_t samples_at_once);

  /// D(x; sigma) of the whole field, or strip. x: [N, 1, H, W] float32.
  at::Tensor operator()(const at::Tensor& x, double sigma);

  std::int64_t tiles() const { return static_cast<std::int64_t>(rows_.starts.size() * columns_.starts.size()); }

private:
  /// Windows that go through the network together: member, place and weights of each.
  struct Batch {
    std::int64_t first = 0;  ///< number of its first window
    std::vector<std::int64_t> members, rows, columns;
    at::Tensor row_weights, column_weights;  ///< [K, tile]
  };
  /// What an evaluation of so many members needs, and its recording.
  struct Evaluation {
    std::vector<Batch> batches;  ///< of several windows
    bool warm = false, recordable = true;
    at::Tensor x, estimate;
    at::Tensor sent;  ///< to other strips
    std::unique_ptr<device::Graph> graph;
  };
  std::vector<Batch> plan(std::int64_t members) const;
  at::Tensor evaluate(const Evaluation& evaluation, const at::Tensor& x) const;
  at::Tensor evaluate_strip(Evaluation& evaluation, const at::Tensor& x);
  at::Tensor recorded(Evaluation& evaluation, const at::Tensor& x);
  at::Tensor whole(const at::Tensor& x) const;
  Conditions conditions(const at::Tensor& maps) const;

  Denoiser& network_;
  device::Device& device_;
  at::Tensor maps_, scalars_;
  TileAxis rows_, columns_;
  at::Tensor row_weights_, column_weights_;  ///< [windows of the axis, tile], on the device
  std::int64_t samples_at_once_;
  std::optional<Seams> seams_;
  at::Tensor level_;                                ///< [1]: sigma, in the same memory at each step
  std::map<std::int64_t, Evaluation> evaluations_;  ///< by number of members
};

}  // namespace cirrus::diffusion
