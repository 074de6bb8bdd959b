// How members and tiles are shared out over ranks: all of them, once, and evenly.
#include "enhance/shares.h"

#include <boost/test/unit_test.hpp>

#include "diffusion/denoiser.h"

using namespace cirrus;
using namespace cirrus::enhance;

namespace {

diffusion::TileAxis axis(std::int64_t length, std::int64_t tile) {
  return diffusion::plan_axis(length, tile, -1, false, 0, 8);
}

constexpr std::int64_t kRadius = 72;

Shares shares(int ranks, std::int64_t members, const diffusion::TileAxis& rows, bool may_split = true) {
  return plan_shares(ranks, members, rows, kRadius, 8, may_split);
}

/// What the slowest rank passes over, in evaluations of the whole.
double slowest(const Shares& s, const diffusion::TileAxis& rows) {
  const std::int64_t whole = rows.count() * rows.tile;
  return static_cast<double>(s.members_of(0) * s.strips()[0].count * s.rows.tile) / static_cast<double>(whole);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(shares_of_ranks)

BOOST_AUTO_TEST_CASE(every_member_is_held_by_one_rank_and_every_strip_sampled) {
  for (const std::int64_t tile : {0, 128, 512})
    for (int ranks = 1; ranks < 20; ++ranks)
      for (const std::int64_t members : {1, 2, 5, 8, 32}) {
        const diffusion::TileAxis rows = axis(1088, tile);
        const Shares s = shares(ranks, members, rows);
        const std::string what =
            std::to_string(ranks) + " ranks, " + std::to_string(members) + " members, tiles of " + std::to_string(tile);
        BOOST_TEST(s.teams * s.team_size <= ranks, what);
        BOOST_TEST(s.idle() == ranks - s.teams * s.team_size);
        BOOST_TEST(static_cast<int>(s.strips().size()) == s.team_size, what);
        std::int64_t members_seen = 0;
        int last = -1, holders = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const int team = s.team_of(rank);
          BOOST_TEST((team == -1) == (rank >= s.teams * s.team_size), what);
          if (team < 0) continue;
          BOOST_TEST((team == last || team == last + 1));
          BOOST_TEST(s.holds(rank) == (team != last));
          if (team != last) {
            ++holders;
            BOOST_TEST(s.first_member(team) == members_seen);
            for (std::int64_t i = 0; i < s.members_of(team); ++i) BOOST_TEST(s.owner_of(members_seen + i) == rank);
            members_seen += s.members_of(team);
          }
          BOOST_TEST(s.place_of(rank) == rank - team * s.team_size);
          last = team;
        }
        BOOST_TEST(members_seen == members, what);
        BOOST_TEST(holders == s.teams);
        BOOST_TEST(s.holds(0));
        // More ranks never make it slower than members alone would be.
        const auto alone = static_cast<double>((members + ranks - 1) / ranks);
        BOOST_TEST(slowest(s, rows) <= alone, what);
      }
}

BOOST_AUTO_TEST_CASE(members_come_first_then_tiles) {
  const diffusion::TileAxis tiles = axis(1088, 128);  // 16 rows
  BOOST_TEST(shares(1, 8, tiles).text() == "1 rank: 8 members each");
  BOOST_TEST(shares(2, 8, tiles).team_size == 1);
  BOOST_TEST(shares(8, 8, tiles).text() == "8 ranks: 1 member each");
  BOOST_TEST(shares(32, 8, tiles).text() == "32 ranks: 1 member for each team of 4, a strip a rank");
  BOOST_TEST(shares(4, 1, tiles).team_size == 4);
  // 12 ranks would leave 4 idle with members alone: 4 teams of 3 with 2 members each take two thirds of the time.
  BOOST_TEST(shares(12, 8, tiles).team_size > 1);
  BOOST_TEST(slowest(shares(12, 8, tiles), tiles) < 0.8);
  BOOST_TEST(shares(3, 4, axis(320, 0)).text() == "3 ranks: 1 or 2 members each");
}

BOOST_AUTO_TEST_CASE(ranks_beyond_the_tile_rows_are_idle) {
  const diffusion::TileAxis two = axis(192, 128);
  BOOST_TEST_REQUIRE(two.count() == 2);
  const Shares s = shares(7, 2, two);
  BOOST_TEST(s.team_size == 2);
  BOOST_TEST(s.idle() == 3);
  BOOST_TEST(s.team_of(3) == 1);
  BOOST_TEST(s.team_of(4) == -1);
  BOOST_TEST(s.text() == "4 of 7 ranks: 1 member for each team of 2, a strip a rank");
}

BOOST_AUTO_TEST_CASE(one_window_is_split_where_it_pays_and_the_network_sees_so_far_only) {
  const Shares large = shares(4, 1, axis(1088, 0));
  BOOST_TEST(large.split);
  BOOST_TEST(large.team_size == 4);
  BOOST_TEST(slowest(large, axis(1088, 0)) < 0.45);
  const Shares small = shares(4, 1, axis(160, 0));  // two windows of 152 would save nothing
  BOOST_TEST(!small.split);
  BOOST_TEST(small.idle() == 3);
  BOOST_TEST(shares(4, 1, axis(1088, 0), false).idle() == 3);
  const Shares whole = plan_shares(4, 2, axis(1088, 0), diffusion::kWholeWindow, 8);
  BOOST_TEST(!whole.split);
  BOOST_TEST(whole.idle() == 2);
}

BOOST_AUTO_TEST_SUITE_END()
