// Sampling of the members of a rank or a team of ranks.
#include "enhance/sampling.h"

#include <numeric>

#include "base/errors.h"
#include "base/log.h"
#include "base/signals.h"
#include "device/memory_error.h"
#include "dist/process_group.h"
#include "enhance/mirror.h"
#include "kernels/normal_noise.h"

namespace cirrus::enhance {
namespace {

/// What this rank samples.
struct Share {
  std::int64_t first = 0, count = 0;     ///< members
  std::vector<diffusion::Strip> strips;  ///< of its team; empty: each rank has whole members
  std::size_t place = 0;                 ///< in the team
  dist::ProcessGroup* group = nullptr;   ///< of the team
  bool holds = true;
};

Share share_of(const Shares& shares, Ranks& ranks) {
  Share share;
  if (shares.team_size > 1) {
    share.strips = shares.strips();
    share.group = &ranks.team_on_device(shares.team_size);
  }
  const int team = shares.team_of(ranks.rank());
  share.holds = shares.holds(ranks.rank());
  if (team < 0) return share;
  share.place = static_cast<std::size_t>(shares.place_of(ranks.rank()));
  share.first = shares.first_member(team);
  share.count = shares.members_of(team);
  return share;
}

/// The strips of a state, [N, 1, rows, W], as a whole: on the first rank of the team; undefined on the others.
at::Tensor joined(const at::Tensor& x, const Share& share) {
  const auto rows = [](const diffusion::Strip& s) { return s.own_end - s.begin; };
  const diffusion::Strip& mine = share.strips[share.place];
  const at::Tensor sent = x.squeeze(1).narrow(1, 0, rows(mine)).transpose(0, 1).contiguous();
  std::vector<std::int64_t> to(share.strips.size()), from(share.strips.size());
  to[0] = rows(mine);
  std::int64_t total = 0;
  for (std::size_t s = 0; share.holds && s < share.strips.size(); ++s) total += from[s] = rows(share.strips[s]);
  const at::Tensor all = at::empty({total, sent.size(1), sent.size(2)}, sent.options());
  share.group->exchange(all, from, sent, to, "the strips of a member").wait();
  return share.holds ? all.transpose(0, 1).unsqueeze(1) : at::Tensor();
}

at::Tensor sample(const Prepared& p, Model& model, const EnhanceOptions& o, const Layout& layout, const Shares& shares,
                  const Share& share) {
  const std::int64_t s = layout.padding, bottom = layout.state_height - layout.height - s,
                     right = layout.state_width - layout.width - s;
  const at::Device device = model.device->torch_device();
  at::Tensor t = at::empty({share.holds ? share.count : 0, layout.height, layout.width}, at::kDouble);
  if (share.count == 0) return t;
  const bool whole = share.strips.empty();
  const std::int64_t begin = whole ? 0 : share.strips[share.place].begin,
                     rows = whole ? layout.state_height : share.strips[share.place].end - begin;
  const at::Tensor maps = mirror_pad(p.maps, s, bottom, s, right), scalars = p.scalars.to(device);
  const diffusion::Exchange exchange = [&](const at::Tensor& received, const std::vector<std::int64_t>& from,
                                           const at::Tensor& sent, const std::vector<std::int64_t>& to) {
    share.group->exchange(received, from, sent, to, "the seams of strips").wait();
  };
  const auto denoiser = [&] {
    if (whole)
      return diffusion::TiledDenoiser(*model.network, *model.device, maps.to(device), scalars, layout.rows,
                                      layout.columns, layout.batch);
    return diffusion::TiledDenoiser(
        *model.network, *model.device, maps.narrow(1, begin, rows).contiguous().to(device), scalars,
        diffusion::Seams(shares.rows, layout.columns, share.strips, share.place, exchange, device), layout.columns,
        layout.batch);
  };
  diffusion::TiledDenoiser tiled = denoiser();
  for (std::int64_t done = 0; done < share.count; done += layout.members_at_once) {
    const std::int64_t n = std::min(layout.members_at_once, share.count - done);
    std::vector<std::uint64_t> items(static_cast<std::size_t>(n));
    std::iota(items.begin(), items.end(), static_cast<std::uint64_t>(share.first + done));
    const auto denoise = [&](const at::Tensor& x, double sigma) {
      signals::check_interrupt();
      const at::Tensor d = tiled(x, sigma);
      if (o.progress) o.progress(n);
      return d;
    };
    const auto noise = [&](std::uint32_t step) {
      return kernels::normal_noise({n, 1, rows, layout.state_width},
                                   {o.seed, Purpose::sampler_noise, items, step, begin}, device);
    };
    at::Tensor x0 = diffusion::sample(o.sampler, denoise, noise);
    if (!whole) x0 = joined(x0, share);
    if (!share.holds) continue;
    x0 = x0.cpu().squeeze(1).narrow(1, s, layout.height).narrow(2, s, layout.width);
    t.narrow(0, done, n).copy_((p.base + p.scale * x0).to(at::kDouble));
  }
  return t;
}

/// Which --tile to use instead: smaller ones are tried out.
std::string largest_tile_that_fits(Model& model, const Layout& layout) {
  const std::int64_t align = model.network->alignment();
  for (std::int64_t tile = std::max(layout.rows.tile, layout.columns.tile) / 2; tile >= kLeastTile; tile /= 2) {
    const std::int64_t side = tile / align * align;
    try {
      evaluate_empty_window(model, side);
      return "windows of " + std::to_string(side) + " fit: --tile " + std::to_string(side);
    } catch (const std::exception& e) {
      if (!device::is_out_of_memory(e)) throw;
    }
  }
  return "use a device with more memory, or --device cpu, or a --tile below " + std::to_string(kLeastTile) +
         " with an --overlap of your own";
}

}  // namespace

at::Tensor sample_members(const Prepared& p, Model& model, const EnhanceOptions& o, Layout& layout,
                          const Shares& shares, Ranks& ranks) {
  const Share share = share_of(shares, ranks);
  while (true) {
    try {
      return sample(p, model, o, layout, shares, share);
    } catch (const std::exception& e) {
      if (!device::is_out_of_memory(e)) throw;
      const std::string windows =
          "A window of " + std::to_string(layout.rows.tile) + " x " + std::to_string(layout.columns.tile) + " pixels";
      // A strip has gone as far as it can, and those beside it wait.
      if (!share.strips.empty() || (layout.batch == 1 && layout.members_at_once == 1))
        throw device::out_of_memory(e, *model.device, windows, largest_tile_that_fits(model, layout));
      layout.batch = std::max<std::int64_t>(1, layout.batch / 2);
      layout.members_at_once = std::max<std::int64_t>(1, layout.members_at_once / 2);
      log::warning("Out of memory on " + model.device->name() + ": going on with " + std::to_string(layout.batch) +
                   " windows and " + std::to_string(layout.members_at_once) + " members at once");
    }
  }
}

at::Tensor estimate_mean(const Prepared& p, Model& model, const EnhanceOptions& o, Layout& layout, const Shares& shares,
                         Ranks& ranks) {
  EnhanceOptions evaluation = o;
  evaluation.sampler.name = "mean";
  evaluation.sampler.churn = 0;
  evaluation.progress = nullptr;
  Shares one = plan_shares(ranks.size(), 1, layout.rows, model.network->receptive_radius(), model.network->alignment(),
                           shares.split);
  if (one.team_size > 1)
    ranks.meet();
  else
    one.first_rank = ranks.size() - 1;  // which has the fewest members, or none
  const at::Tensor t = sample_members(p, model, evaluation, layout, one, ranks);
  const int owner = one.owner_of(0);
  at::Tensor map = t.size(0) > 0 ? t[0] : at::Tensor();
  if (ranks.is_lead() && owner != 0) map = at::empty({layout.height, layout.width}, at::kDouble);
  ranks.meet();
  ranks.all().to_first(map, owner);
  return map;
}

}  // namespace cirrus::enhance
