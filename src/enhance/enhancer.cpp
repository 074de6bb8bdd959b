// Layout, agreement with the data, averages. Members are drawn in sampling.cpp.
#include "enhance/enhancer.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <future>

#include "base/errors.h"
#include "enhance/consistency.h"
#include "enhance/mirror.h"
#include "enhance/sampling.h"
#include "kernels/block_flux.h"
#include "kernels/normal_noise.h"

namespace cirrus::enhance {
namespace {

constexpr std::int64_t kPadding = 16;  // mirrored output pixels around the map: the network's zeros stay away from it
constexpr std::int64_t kLargestWhole = 4'000'000;  // state pixels that are denoised as one window by default
constexpr std::int64_t kUsualTile = 1024;
constexpr std::int64_t kPixelsAtOnce = 1'500'000;  // of all windows in one network call
constexpr double kFaint = 8;                       // see bounds()
// One evaluation at the highest noise level is the network's own estimate of what members average to. Its error against
// that average is as large as the sampling error of so many members (measured: 25 on block means, 28 under a beam).
constexpr double kEvaluationIsWorth = 24;
constexpr std::int64_t kSolveIsWorth = 12;         // evaluations in which a beam solve's time is told
constexpr double kSolvesAtOnceBytes = 3e9;         // of all beam solves that run beside each other
constexpr std::int64_t kStateAtOnce = 16'000'000;  // pixels of all members sampled together

std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// Highest and lowest T a member may take at each output pixel. The transform's inverse grows exponentially, so that
/// without a bound one overshooting pixel in a map of extreme contrast outshines all others. A block can hold at most
/// s^2 times its mean in one pixel where nothing is negative; twice that, around the brightest of the neighbours,
/// leaves room for the rest. On the other side of zero, where the neighbours do not reach, kFaint times the transform's
/// width is room enough.
std::pair<at::Tensor, at::Tensor> bounds(const at::Tensor& q, std::int64_t s) {
  const at::Tensor padded = mirror_pad(q, 1, 1, 1, 1).unsqueeze(0);
  const double room = 2.0 * static_cast<double>(s * s);
  const auto bound = [&](const at::Tensor& x) {
    const at::Tensor largest = at::max_pool2d(x, 3, 1).squeeze(0).clamp_min(0);
    return (room * largest + kFaint).asinh().repeat_interleave(s, 0).repeat_interleave(s, 1);
  };
  return {-bound(-padded), bound(padded)};
}

/// Operators run on one thread while it lives: for what is solved, and all it is solved from, so that sums have one
/// order whatever the threads. Solves amplify rounding where maps are bright.
struct OneThread {
  const int before = at::get_num_threads();
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before); }
};
template <typename F>
auto on_one_thread(F&& f) {
  const OneThread guard;
  return f();
}

/// Tells the shares of one solve as evaluations.
class SolveProgress {
public:
  explicit SolveProgress(const std::function<void(std::int64_t)>& tell) : tell_(tell) {}
  void operator()(double share) {
    done_ += share * static_cast<double>(kSolveIsWorth);
    const std::int64_t whole = std::llround(std::floor(done_ + 1e-6)) - told_;
    if (tell_ && whole > 0) tell_(whole);
    told_ += whole;
  }

private:
  const std::function<void(std::int64_t)>& tell_;
  double done_ = 0;
  std::int64_t told_ = 0;
};

/// A solve by all ranks of a group: each solves some of its tiles. t: rank 0's, overwritten on the others; [H, W] on
/// all. The solution is everyone's.
BeamSolution solve_together(const at::Tensor& t, const at::Tensor& q, const Ensemble& data, const BeamSolve& solve,
                            const EnhanceOptions& o, MapGroup& group) {
  BeamSolve mine = solve;
  if (group.size() == 1) {
    mine.progress = SolveProgress(o.progress);
    return on_one_thread([&] { return solve_beam(t, q, data.degrade, mine); });
  }
  mine.part = group.rank();
  mine.parts = group.size();
  group.from_first(t);
  const BeamSolution solution = on_one_thread([&] { return solve_beam(t, q, data.degrade, mine); });
  group.put_together(solution.t);
  group.put_together(solution.degraded);
  if (o.progress) o.progress(kSolveIsWorth);
  return solution;
}

/// Makes each member agree with the data plus a noise draw of its own (beam mode), in place. `first`: number of the
/// first of these members. group: ranks that solve together; only the first of them has members.
void make_consistent(at::Tensor& t, std::int64_t first, std::int64_t count, const Ensemble& data,
                     const BeamSolve& solve, const EnhanceOptions& o, MapGroup& group) {
  const auto observed = [&](std::int64_t i) {
    const at::Tensor draw = kernels::normal_noise(
        {1, 1, data.q.size(0), data.q.size(1)}, {o.seed, Purpose::data_noise, {static_cast<std::uint64_t>(first + i)}});
    return data.q + data.noise * draw.to(at::kDouble).view(data.q.sizes());
  };
  if (group.size() > 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      const at::Tensor member =
          group.is_first() ? t[i] : at::empty({data.degrade.height(), data.degrade.width()}, at::kDouble);
      const BeamSolution solution = solve_together(member, observed(i), data, solve, o, group);
      if (group.is_first()) member.copy_(solution.t);
    }
    return;
  }
  const auto one = [&](std::int64_t i) {
    BeamSolve mine = solve;
    mine.progress = SolveProgress(o.progress);
    t[i].copy_(solve_beam(t[i], observed(i), data.degrade, mine).t);
  };
  // Members beside each other as far as memory allows, each on one thread: sums do not depend on the number of threads.
  const auto fit = static_cast<std::int64_t>(kSolvesAtOnceBytes / beam_solve_bytes(data.degrade));
  const std::int64_t lanes = std::clamp<std::int64_t>(fit, 1, std::min<std::int64_t>(at::get_num_threads(), t.size(0)));
  const auto lane = [&](std::int64_t number) {
    const c10::NoGradGuard no_grad;
    at::set_num_threads(1);  // of this thread; for the pool's own threads MKL would choose other kernels
    for (std::int64_t i = number; i < t.size(0); i += lanes) one(i);
  };
  const OneThread serial;
  std::vector<std::future<void>> others;
  for (std::int64_t i = 1; i < lanes; ++i) others.push_back(std::async(std::launch::async, lane, i));
  lane(0);
  for (std::future<void>& other : others) other.get();
}

/// Prior standard deviation of the correction: the ensemble's own, smoothed over 2 pixels and floored; for a single
/// member the residual's expected rms.
at::Tensor correction_sigma(const at::Tensor& t, const Prepared& p) {
  if (t.size(0) < 2) return (0.5 * p.scale).to(at::kDouble);
  const at::Tensor variance = t.var(0);
  return (sky::Degradation(t.size(1), t.size(2), 2.0, 1).apply(variance) + 4e-4 * variance.mean()).sqrt();
}

/// The members of all ranks, on the lead, in `all`. own: those this rank holds, [n, H, W].
void gather(const at::Tensor& own, at::Tensor& all, const Shares& shares, Ranks& ranks) {
  if (ranks.size() == 1) {
    all = own;
    return;
  }
  ranks.meet();
  if (ranks.is_lead()) {
    if (!all.defined()) all = at::empty({shares.members, own.size(1), own.size(2)}, at::kDouble);
    all.narrow(0, 0, own.size(0)).copy_(own);  // the lead is the first team's
  }
  std::int64_t mine = 0;
  for (std::int64_t i = 0; i < shares.members; ++i) {
    const int owner = shares.owner_of(i);
    ranks.all().to_first(ranks.is_lead() ? all[i] : owner == ranks.rank() ? own[mine++] : at::Tensor(), owner);
  }
}

}  // namespace

Layout plan_layout(std::int64_t lr_height, std::int64_t lr_width, std::int64_t factor,
                   const diffusion::Denoiser& network, const EnhanceOptions& o) {
  const std::int64_t align = network.alignment();
  if (o.exact_overlap && network.receptive_radius() == diffusion::kWholeWindow)
    throw Error(ExitCode::usage, "No overlap is exact for this network: each pixel depends on its whole window",
                "leave out --overlap exact");
  Layout l;
  l.height = lr_height * factor;
  l.width = lr_width * factor;
  l.padding = round_up(kPadding, align * factor);  // the network's grid and the blocks keep their phase
  l.state_height = round_up(l.height + 2 * l.padding, align);
  l.state_width = round_up(l.width + 2 * l.padding, align);
  const std::int64_t state = l.state_height * l.state_width, asked = o.tile > 0               ? o.tile
                                                                     : state <= kLargestWhole ? 0
                                                                                              : kUsualTile;
  // Half of a small tile would show at the seams; who asks for an overlap gets it.
  const std::int64_t tile = asked > 0 && o.overlap < 0 && !o.exact_overlap ? std::max(asked, kLeastTile) : asked;
  l.rows = diffusion::plan_axis(l.state_height, tile, o.overlap, o.exact_overlap, network.receptive_radius(), align);
  l.columns = diffusion::plan_axis(l.state_width, tile, o.overlap, o.exact_overlap, network.receptive_radius(), align);
  l.batch = o.batch > 0 ? o.batch : std::max<std::int64_t>(1, kPixelsAtOnce / (l.rows.tile * l.columns.tile));
  l.members_at_once = std::clamp<std::int64_t>(o.members_at_once > 0 ? o.members_at_once : kStateAtOnce / state, 1,
                                               std::max<std::int64_t>(1, o.members));
  return l;
}

Shares plan_shares(int ranks, const Layout& layout, const diffusion::Denoiser& network, const EnhanceOptions& o) {
  return plan_shares(ranks, o.sampler.name == "mean" ? 1 : o.members, layout.rows, network.receptive_radius(),
                     network.alignment());
}

Layout strip_layout(const Layout& layout, const Shares& shares) {
  Layout l = layout;
  l.rows = shares.rows;
  l.rows.starts.resize(static_cast<std::size_t>(shares.strips()[0].count));
  return l;
}

std::int64_t solve_evaluations(const EnhanceOptions& o, const Sampling& sampling) {
  if (sampling.beam_in <= 0 || !o.consistency) return 0;
  return kSolveIsWorth * (o.sampler.name == "mean" ? 1 : o.members + 1);
}

double work_pixels(const Layout& l, const EnhanceOptions& o, const Sampling& sampling, const Shares& shares) {
  const bool one = o.sampler.name == "mean";
  const auto members = static_cast<double>(shares.members_of(0));
  const double evaluations = one ? 1 : members * diffusion::evaluations(o.sampler) + 1,
               network = static_cast<double>(strip_layout(l, shares).window_pixels()) * evaluations;
  if (sampling.beam_in <= 0 || !o.consistency) return network;
  const sky::Degradation degrade(l.height, l.width, sampling.difference_sigma(), sampling.factor);
  const std::int64_t tiles = beam_solve_tiles(degrade);
  const auto share = [&](int ranks) {  // of a solve that so many do together
    return static_cast<double>((tiles + ranks - 1) / ranks) / static_cast<double>(tiles);
  };
  const double s = static_cast<double>(sampling.factor),
               solves = (one ? 0 : members * share(shares.team_size)) + share(shares.ranks);
  return network + static_cast<double>(kSolveIsWorth) * solves * s * s * beam_solve_pixels(degrade);
}

double peak_memory_bytes(const Layout& l, const EnhanceOptions& o, const Sampling& sampling) {
  const double output = static_cast<double>(l.height * l.width),
               state = static_cast<double>(l.state_height * l.state_width);
  const double window = static_cast<double>(l.batch * l.rows.tile * l.columns.tile);
  // The members are held twice at the end: in T and in the map's unit.
  const double maps = output * 8 * (2 * static_cast<double>(o.members) + 14),
               network = state * 4 * (6 * static_cast<double>(l.members_at_once) + 8) + window * 260;
  const double one = sampling.beam_in > 0 && o.consistency
                         ? beam_solve_bytes({l.height, l.width, sampling.difference_sigma(), sampling.factor})
                         : 0;
  return 3e8 + maps + std::max(network, std::max(one, std::min(one * at::get_num_threads(), kSolvesAtOnceBytes)));
}

Ensemble draw_ensemble(const Observation& given, const at::Tensor& missing, Model& model, const EnhanceOptions& o,
                       Ranks& ranks) {
  const c10::NoGradGuard no_grad;
  // Beams are known to fewer digits than this keeps: one that was told in degrees and one in arcsec give the same map.
  Observation observation = given;
  for (double* beam : {&observation.sampling.beam_in, &observation.sampling.beam_out})
    *beam = std::round(*beam * 0x1p20) / 0x1p20;
  const Sampling& sampling = observation.sampling;
  Layout layout = plan_layout(observation.lr.size(0), observation.lr.size(1), sampling.factor, *model.network, o);
  const Prepared p = on_one_thread([&] { return prepare(observation, model); });
  const metrics::Transform& transform = p.transform;
  Ensemble e{.sampling = sampling,
             .one = o.sampler.name == "mean",
             .layout = layout,
             .transform = transform,
             .base = p.base,
             .q = (observation.lr - transform.m) / transform.a,
             .noise = observation.noise / transform.a,
             .weight = missing.logical_not().to(at::kDouble),
             .degrade = {layout.height, layout.width, sampling.difference_sigma(), sampling.factor},
             .members = {},
             .average = {}};
  const bool block = observation.block_mode();
  const Shares shares = plan_shares(ranks.size(), layout, *model.network, o);
  const int team = shares.team_of(ranks.rank());
  const std::int64_t first = team < 0 ? 0 : shares.first_member(team), count = team < 0 ? 0 : shares.members_of(team),
                     held = shares.holds(ranks.rank()) ? count : 0;

  // A map without contrast has no scale to add detail at.
  const bool flat = observation.lr.max().item<double>() == observation.lr.min().item<double>();
  at::Tensor t = flat ? at::zeros({held, layout.height, layout.width}, at::kDouble)
                      : sample_members(p, model, o, layout, shares, ranks);
  const auto [low, high] = bounds(e.q, sampling.factor);
  const auto bounded = [low = low, high = high](const at::Tensor& x) { return at::minimum(at::maximum(x, low), high); };
  t = bounded(t);
  at::Tensor estimate;
  if (!e.one && !flat) estimate = estimate_mean(p, model, o, layout, shares, ranks);
  e.layout = layout;
  BeamSolve solve;
  if (!block) {
    solve.noise = e.noise;
    solve.weight = e.weight;
    solve.low = low;
    solve.high = high;
    if (shares.members > 1) gather(t, e.members, shares, ranks);
    // Of the ensemble: the lead's to compute, so that its sums have one order.
    solve.sigma = ranks.is_lead()
                      ? on_one_thread([&] { return correction_sigma(shares.members > 1 ? e.members : t, p); })
                      : at::empty({layout.height, layout.width}, at::kDouble);
    ranks.meet();
    ranks.all().from_first(solve.sigma);
  }
  const bool in_tiles = !block && beam_solve_tiles(e.degrade) > 1;  // which ranks can solve together
  MapGroup alone;
  if (o.consistency && !e.one) {
    MapGroup& group = in_tiles && shares.team_size > 1 ? ranks.team(shares.team_size) : alone;
    if (!block)
      make_consistent(t, first, group.size() > 1 ? count : held, e, solve, o, group);
    else if (held > 0) {
      const at::Device where =
          model.device->capabilities().float64 ? model.device->torch_device() : at::Device(at::kCPU);
      t = kernels::project_blocks(t.to(where), e.q.to(where), sampling.factor).cpu();
    }
  }
  gather(t, e.members, shares, ranks);
  if (ranks.is_lead()) {
    e.average = e.members.mean(0);
    if (estimate.defined()) {
      const auto n = static_cast<double>(shares.members);
      e.average = (n * e.average + kEvaluationIsWorth * bounded(estimate)) / (n + kEvaluationIsWorth);
    }
    if (o.consistency && block) e.average = kernels::project_blocks(e.average, e.q, sampling.factor);
  } else if (in_tiles) {
    e.average = at::empty({layout.height, layout.width}, at::kDouble);
  }
  if (o.consistency && !block && (ranks.is_lead() || in_tiles)) {
    if (in_tiles) ranks.meet();
    const BeamSolution solved = solve_together(e.average, e.q, e, solve, o, in_tiles ? ranks.all() : alone);
    e.average = solved.t;
    e.degraded = solved.degraded;
  }
  return e;
}

Enhanced describe(const Ensemble& e) {
  const c10::NoGradGuard no_grad;
  const at::Tensor& t = e.members;
  Enhanced out;
  out.layout = e.layout;
  out.transform = e.transform;
  out.mean = e.transform.inverse(e.average);
  if (!out.mean.isfinite().all().item<bool>())
    throw Error(ExitCode::bad_data, "The map's values span more than can be computed with: some results are not finite",
                "divide the map by a constant, or set absurd pixels to NaN");
  out.degraded = e.degraded.defined() ? e.transform.m + e.transform.a * e.degraded : e.degrade.apply(out.mean);
  const auto chi2 = [&](const at::Tensor& map) {
    return on_one_thread([&] { return chi_square(map, e.q, e.degrade, e.noise, e.weight); });
  };
  const bool block = e.sampling.beam_in <= 0;
  if (!block) out.chi2 = chi2(e.average);
  if (e.one) return out;
  if (!block) {
    double sum = 0;
    for (std::int64_t i = 0; i < t.size(0); ++i) sum += chi2(t[i]);
    out.member_chi2 = sum / static_cast<double>(t.size(0));
  }
  if (t.size(0) > 1) {
    const sky::Degradation smooth(out.layout.height, out.layout.width, static_cast<double>(e.sampling.factor), 1);
    const at::Tensor spread = smooth.apply(t.var(0)), added = smooth.apply((t - e.base).square().mean(0));
    out.prior = (spread / added.clamp_min(1e-300)).clamp(0, 1);
  }
  out.members = e.transform.inverse(t);
  if (t.size(0) > 1) out.std = out.members.std(0);
  return out;
}

Enhanced enhance_map(const Observation& observation, const at::Tensor& missing, Model& model,
                     const EnhanceOptions& options) {
  Ranks alone;
  return describe(draw_ensemble(observation, missing, model, options, alone));
}

}  // namespace cirrus::enhance
