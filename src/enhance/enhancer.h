// The enhancement itself: an observation and a model in, super-resolved maps out. No files, no headers: those are
// output.h's.
#pragma once

#include <functional>
#include <optional>

#include "diffusion/sampler.h"
#include "diffusion/tiling.h"
#include "enhance/model.h"
#include "enhance/observation.h"
#include "enhance/ranks.h"
#include "enhance/shares.h"
#include "sky/degrade.h"

namespace cirrus::enhance {

/// Output pixels: smaller tiles at half overlap would differ from the whole map by more than the stated bound.
inline constexpr std::int64_t kLeastTile = 128;

struct EnhanceOptions {
  diffusion::SamplerOptions sampler;
  std::int64_t members = 8;
  std::int64_t tile = 0;      ///< output pixels; 0: the whole map if it fits, else 1024
  std::int64_t overlap = -1;  ///< output pixels; -1: half a tile
  bool exact_overlap = false;
  std::int64_t batch = 0;            ///< windows in one network call; 0: by size
  std::int64_t members_at_once = 0;  ///< sampled together; 0: by size
  std::uint64_t seed = 0;
  bool consistency = true;
  std::function<void(std::int64_t)>
      progress{};  ///< called, from any thread, with the network evaluations (of one member) just done or their worth
};

/// How the work is laid out; known before it is done.
struct Layout {
  std::int64_t height = 0, width = 0;  ///< of the output
  std::int64_t padding = 0;            ///< mirrored pixels above and left of it in the state
  std::int64_t state_height = 0, state_width = 0;
  diffusion::TileAxis rows, columns;
  std::int64_t batch = 1;
  std::int64_t members_at_once = 1;
  std::int64_t tiles() const { return static_cast<std::int64_t>(rows.starts.size() * columns.starts.size()); }
  std::int64_t window_pixels() const { return tiles() * rows.tile * columns.tile; }  ///< of one evaluation
};
/// Throws Error(usage) for a tile or overlap that cannot be.
Layout plan_layout(std::int64_t lr_height, std::int64_t lr_width, std::int64_t factor,
                   const diffusion::Denoiser& network, const EnhanceOptions& options);

/// How the ranks share a map with this layout.
Shares plan_shares(int ranks, const Layout& layout, const diffusion::Denoiser& network, const EnhanceOptions& options);
/// The layout of the largest strip: of what one rank passes over in an evaluation.
Layout strip_layout(const Layout& layout, const Shares& shares);

/// What the agreement with the data takes in beam mode, as network evaluations of one member; 0 otherwise.
std::int64_t solve_evaluations(const EnhanceOptions& options, const Sampling& sampling);

/// Output pixels the network passes over in all on the rank that has most to do, the beam solves counted as
/// solve_evaluations().
double work_pixels(const Layout& layout, const EnhanceOptions& options, const Sampling& sampling, const Shares& shares);

/// Bytes the state, the members, the network's activations and the beam solves take at their peak (on the rank that
/// holds all members; `layout`: of its strip); an estimate.
double peak_memory_bytes(const Layout& layout, const EnhanceOptions& options, const Sampling& sampling);

/// An ensemble in the transform T, drawn and made to agree with the data. On ranks other than the lead, no maps.
struct Ensemble {
  Sampling sampling;
  bool one = false;  ///< the sampler "mean"
  Layout layout;
  metrics::Transform transform;
  at::Tensor base;    ///< T(U)
  at::Tensor q;       ///< (y - m)/a, [h, w]
  double noise = 0;   ///< sigma / a
  at::Tensor weight;  ///< [h, w], 1 where there are data
  sky::Degradation degrade;
  at::Tensor members;     ///< [N, H, W]
  at::Tensor average;     ///< [H, W]
  at::Tensor degraded{};  ///< q of the average, [h, w]: what the solve found (beam mode)
};

/// missing: [h, w] bool, pixels of the observation that were filled: they do not constrain anything. All ranks call it,
/// with the same arguments but for progress, which tells this rank's evaluations.
Ensemble draw_ensemble(const Observation& observation, const at::Tensor& missing, Model& model,
                       const EnhanceOptions& options, Ranks& ranks);

/// All maps float64, in the observation's unit; [H, W] unless stated.
struct Enhanced {
  at::Tensor mean;
  at::Tensor members;  ///< [N, H, W]; undefined for the sampler "mean"
  at::Tensor std;      ///< sample standard deviation of the members; undefined for fewer than 2
  at::Tensor
      prior;  ///< ensemble variance over the variance of the detail added to U, in T, 0..1; undefined for fewer than 2
  at::Tensor degraded;  ///< D mean, [h, w]; in beam mode with the light from beyond the border that the solve found
  std::optional<double> chi2;         ///< of the mean (beam mode)
  std::optional<double> member_chi2;  ///< mean over members
  metrics::Transform transform;
  Layout layout;
};

/// The maps of an ensemble and what they are worth: the lead's part. Throws Error(bad_data) where they are not finite.
Enhanced describe(const Ensemble& ensemble);

/// Both, in one process.
Enhanced enhance_map(const Observation& observation, const at::Tensor& missing, Model& model,
                     const EnhanceOptions& options);

}  // namespace cirrus::enhance
