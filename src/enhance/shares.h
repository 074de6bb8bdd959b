// How the work on a map is shared out over the ranks of a run: members first, and where there are more ranks than
// members, strips of a member's tiles. Planning alone; nothing here computes or communicates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diffusion/strips.h"

namespace cirrus::enhance {

/// Neighbouring ranks that sample one member after the other together are a team; all teams are of one size. Members
/// are numbered through from team to team, and the first teams have one more where they cannot be shared out evenly.
struct Shares {
  int ranks = 1;
  int teams = 1, team_size = 1;
  int first_rank = 0;  ///< of the first team
  std::int64_t members = 1;
  diffusion::TileAxis rows;  ///< of the windows: the layout's, unless its only window was split
  bool split = false;

  /// -1: the rank has nothing to do.
  int team_of(int rank) const;
  int place_of(int rank) const { return (rank - first_rank) % team_size; }  ///< in its team
  /// The rank that holds its team's members: the first.
  bool holds(int rank) const { return team_of(rank) >= 0 && place_of(rank) == 0; }
  std::int64_t first_member(int team) const;
  std::int64_t members_of(int team) const;
  int owner_of(std::int64_t member) const;  ///< the rank that holds it
  std::vector<diffusion::Strip> strips() const { return diffusion::cut_strips(rows, team_size); }
  int idle() const { return ranks - teams * team_size; }
  /// "4 ranks: 2 teams of 2, 4 members each".
  std::string text() const;
};

/// The shares that end soonest, each network evaluation of a pixel costing the same. `rows`: the layout's; `radius`,
/// `alignment`: the network's. may_split: whether a map of one window may be cut into windows that overlap exactly,
/// which changes its result by rounding.
Shares plan_shares(int ranks, std::int64_t members, const diffusion::TileAxis& rows, std::int64_t radius,
                   std::int64_t alignment, bool may_split = true);

}  // namespace cirrus::enhance
