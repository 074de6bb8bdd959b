// The choice among numbers of teams.
#include "enhance/shares.h"

#include <algorithm>

#include "diffusion/denoiser.h"

namespace cirrus::enhance {
namespace {

// What a share costs beyond its windows: the exchange of seams. A split window must pay for itself clearly.
constexpr double kSeams = 1.05, kSplit = 1.2;

std::int64_t divided_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

}  // namespace

int Shares::team_of(int rank) const {
  const int place = rank - first_rank;
  return place < 0 || place >= teams * team_size ? -1 : place / team_size;
}

std::int64_t Shares::first_member(int team) const {
  return team * (members / teams) + std::min<std::int64_t>(team, members % teams);
}

std::int64_t Shares::members_of(int team) const { return first_member(team + 1) - first_member(team); }

int Shares::owner_of(std::int64_t member) const {
  int team = 0;
  while (first_member(team + 1) <= member) ++team;
  return first_rank + team * team_size;
}

std::string Shares::text() const {
  const auto number = [](std::int64_t n, const char* what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  const std::int64_t most = members_of(0), least = members_of(teams - 1);
  const std::string each = (most == least ? "" : std::to_string(least) + " or ") + number(most, "member");
  const std::string who = (idle() > 0 ? std::to_string(ranks - idle()) + " of " : "") + number(ranks, "rank") + ": ";
  if (team_size == 1) return who + each + " each";
  return who + each + " for each team of " + std::to_string(team_size) + ", a strip a rank";
}

Shares plan_shares(int ranks, std::int64_t members, const diffusion::TileAxis& rows, std::int64_t radius,
                   std::int64_t alignment, bool may_split) {
  Shares best;
  best.ranks = ranks;
  best.members = members;
  double least = 0;
  const auto consider = [&](int teams, std::int64_t team_size, double cost, const diffusion::TileAxis& axis,
                            bool split) {
    if (least > 0 && cost >= least) return;
    least = cost;
    best.teams = teams;
    best.team_size = static_cast<int>(team_size);
    best.rows = axis;
    best.split = split;
  };
  for (int teams = static_cast<int>(std::min<std::int64_t>(ranks, members)); teams > 0; --teams) {
    const auto rounds = static_cast<double>(divided_up(members, teams));
    const std::int64_t available = ranks / teams;
    consider(teams, 1, rounds, rows, false);
    if (available == 1) continue;
    if (rows.count() > 1) {
      const std::int64_t most = divided_up(rows.count(), std::min(available, rows.count()));  // tile rows of a rank
      consider(teams, divided_up(rows.count(), most),
               rounds * kSeams * static_cast<double>(most) / static_cast<double>(rows.count()), rows, false);
    } else if (may_split && radius < diffusion::kWholeWindow) {
      const diffusion::TileAxis split = diffusion::split_window(rows.length, available, radius, alignment);
      if (split.count() > 1)
        consider(teams, split.count(),
                 rounds * kSplit * static_cast<double>(split.tile) / static_cast<double>(rows.length), split, true);
    }
  }
  return best;
}

}  // namespace cirrus::enhance
