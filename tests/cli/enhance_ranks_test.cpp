// `cirrus enhance` in several processes: the map of one, whatever is shared out; one voice; errors and deaths that
// leave nobody waiting.
#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <fstream>
#include <thread>

#include "tests/cli/enhance_folder.h"

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct Ranks : EnhanceFolder {
  Ranks() {
    settings.environment["UCX_HANDLE_ERRORS"] = "none";
    settings.environment["CIRRUS_TIMEOUT"] = "60";  // a hang ends
  }

  /// cirrus enhance WORDS on `n` ranks, as EnhanceFolder::enhance.
  Outcome on(int n, const std::vector<std::string>& words) {
    std::vector<std::string> all{"-n",
                                 std::to_string(n),
                                 program_path("cirrus").string(),
                                 "enhance",
                                 "--members",
                                 "2",
                                 "--steps",
                                 "4",
                                 "--dtype",
                                 "fp32",
                                 "--threads",
                                 "1",
                                 "--no-png",
                                 "--overwrite"};
    all.insert(all.end(), words.begin(), words.end());
    return run(mpiexec(), all, settings);
  }

  /// Largest difference of two outputs' maps, in robust sigmas of the first's mean; pixels brighter than one relative
  /// to their own brightness.
  double difference(const std::string& a, const std::string& b) const {
    double worst = 0;
    std::vector<double> sorted = image(a, "0", 1).pixels;
    std::erase_if(sorted, [](double x) { return std::isnan(x); });
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    const auto median_of = [&] {
      std::nth_element(sorted.begin(), middle, sorted.end());
      return *middle;
    };
    const double m = median_of();
    for (double& x : sorted) x = std::abs(x - m);
    const double sigma = 1.4826 * median_of();
    const std::vector<fits::HduInfo> hdus = fits::list_hdus(at(a).string());
    BOOST_TEST(hdus.size() == fits::list_hdus(at(b).string()).size());
    for (const fits::HduInfo& hdu : hdus)
      for (std::int64_t plane = fits::count_planes(at(a).string(), std::to_string(hdu.number)); plane > 0; --plane) {
        const fits::Image x = image(a, std::to_string(hdu.number), plane),
                          y = image(b, std::to_string(hdu.number), plane);
        BOOST_TEST_REQUIRE(x.pixels.size() == y.pixels.size());
        for (std::size_t i = 0; i < x.pixels.size(); ++i) {
          if (std::isnan(x.pixels[i]) && std::isnan(y.pixels[i])) continue;
          const double d = std::abs(x.pixels[i] - y.pixels[i]) / std::max(sigma, std::abs(x.pixels[i] - m));
          worst = d <= worst ? worst : d;  // NaN stays
        }
      }
    return worst;
  }

  /// One process and `n` ranks give the same map. Returns what the ranks said.
  Outcome same(int n, std::vector<std::string> words, double tolerance) {
    std::vector<std::string> alone{"--steps", "4", "--no-png", "--overwrite", "-o", "one.fits", "--save-members"};
    alone.insert(alone.end(), words.begin(), words.end());
    done(alone);
    words.insert(words.end(), {"-o", "ranks.fits", "--save-members"});
    Outcome outcome = on(n, words);
    BOOST_TEST_REQUIRE(outcome.code == 0, outcome.err);
    const double d = difference("one.fits", "ranks.fits");
    BOOST_TEST(d <= tolerance, n << " ranks: " << d);
    return outcome;
  }
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

constexpr double kRounding = 1e-5;

}  // namespace

BOOST_AUTO_TEST_SUITE(enhance_ranks)

BOOST_FIXTURE_TEST_CASE(members_spread_over_ranks_give_the_map_of_one_process, Ranks) {
  for (const char* beam : {"none", "23"}) {  // arcsec: beam mode
    const Outcome o = same(2, {"map.fits", "--beam", beam, "--noise", "0.1", "--members", "3"}, kRounding);
    BOOST_TEST(contains(o.out, "2 ranks: 1 or 2 members each"), o.out);
    BOOST_TEST(count(o.out, "ds9 ") == 1u, o.out);
  }
  same(3, {"map.fits", "--beam", "none", "--members", "3", "--sampler", "euler", "--churn", "4"}, kRounding);
}

BOOST_FIXTURE_TEST_CASE(tiles_of_a_member_spread_over_teams, Ranks) {
  make_map("large.fits", 30, 70);  // 312 rows in the state: 4 rows of tiles, the last of which reaches back over two
  const Outcome o = same(4, {"large.fits", "--beam", "none", "--tile", "128", "--batch", "1"}, 0);
  BOOST_TEST(contains(o.out, "4 ranks: 1 member for each team of 2, a strip a rank"), o.out);
  same(3, {"large.fits", "--sampler", "mean", "--beam", "none", "--tile", "128", "--batch", "1"}, 0);
}

BOOST_FIXTURE_TEST_CASE(one_window_is_split_into_strips_where_it_pays, Ranks) {
  make_map("tall.fits", 12, 130);
  const Outcome o = same(3, {"tall.fits", "--beam", "none", "--members", "1"}, kRounding);
  BOOST_TEST(contains(o.out, "tiles    1 of"), o.out);
  BOOST_TEST(contains(o.out, "3 ranks: 1 member for each team of 3"), o.out);
}

BOOST_FIXTURE_TEST_CASE(ranks_without_work_are_told_of_once, Ranks) {
  const Outcome o = on(4, {"map.fits", "--beam", "none"});
  BOOST_TEST(o.code == 0);
  BOOST_TEST(count(o.err, "2 of 4 ranks have nothing to do: 2 members, 1 row of tiles each") == 1u, o.err);
  BOOST_TEST(on(4, {"map.fits", "--beam", "none", "--strict"}).code == 65);
}

BOOST_FIXTURE_TEST_CASE(planes_and_json_are_those_of_one_process, Ranks) {
  make_map("cube.fits", 12, 10, "BUNIT   = 'MJy/sr'\n", 3, {2});
  const Outcome o = same(2, {"cube.fits", "--beam", "none", "--all-planes", "--json"}, kRounding);
  const json j = json::parse(o.out);
  BOOST_TEST(j["ranks"] == 2);
  BOOST_TEST(j["planes"] == 3);
}

BOOST_FIXTURE_TEST_CASE(a_dry_run_tells_the_time_of_so_many_ranks, Ranks) {
  const Outcome o = on(2, {"map.fits", "--beam", "none", "--dry-run"});
  BOOST_TEST(o.code == 0);
  BOOST_TEST(contains(o.out, "on 2 ranks, "), o.out);
  BOOST_TEST(contains(o.out, "nothing written"), o.out);
  BOOST_TEST(files() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_bad_map_is_skipped_by_all_ranks, Ranks) {
  make_map("nan.fits", 8, 8, "", 1, {1});
  make_map("last.fits", 8, 8);
  const Outcome o = on(3, {"map.fits", "nan.fits", "last.fits", "--beam", "none", "--json"});
  BOOST_TEST(o.code == 65);
  BOOST_TEST(count(o.err, "not enhanced: nan.fits") == 1u, o.err);
  const json maps = json::parse(o.out)["maps"];
  BOOST_TEST(maps[1]["error"]["code"] == 65);
  BOOST_TEST(fs::exists(at("last_x4.fits")));
}

BOOST_FIXTURE_TEST_CASE(errors_end_all_ranks_with_one_message, Ranks) {
  const auto fails = [&](int code, const std::vector<std::string>& words, const std::string& part) {
    const Outcome o = run(
        mpiexec(),
        [&] {
          std::vector<std::string> all{"-n", "3", program_path("cirrus").string(), "enhance"};
          all.insert(all.end(), words.begin(), words.end());
          return all;
        }(),
        settings);
    BOOST_TEST(o.code == code, words[0] << " ended with " << o.code << ": " << o.err);
    BOOST_TEST(count(o.err, "error: ") == 1u, o.err);
    BOOST_TEST(contains(o.err, part), o.err);
  };
  put(at("map_x4.fits"), "mine");
  fails(73, {"map.fits", "--beam", "none"}, "map_x4.fits exists");
  BOOST_TEST(bytes("map_x4.fits") == "mine");
  fails(66, {"absent.fits", "--no-png"}, "absent.fits");
  fails(64, {"map.fits", "--tile", "3"}, "--tile 3");
  settings.input = bytes("map.fits");
  fails(64, {"-", "--no-png"}, "save the map to a file");
  // What the lead alone finds, at the very end.
  std::vector<float> bright(64, 1e37F);
  bright[27] = 3.3e38F;
  const fits::OutputHdu edge{"", {}, std::span<const float>(bright), {8, 8}};
  fits::write_images(at("edge.fits").string(), {&edge, 1}, {});
  fails(65, {"edge.fits", "--beam", "none", "--no-consistency", "--members", "8", "--steps", "2", "--no-png"},
        "not finite");
}

BOOST_FIXTURE_TEST_CASE(one_rank_that_dies_or_is_stopped_ends_all, Ranks) {
  make_map("long.fits", 64, 64);
  for (const int signal : {SIGKILL, SIGTERM}) {
    fs::remove(at("pids"));
    // Each rank tells its process and becomes the program.
    const std::string script = "echo $PMI_RANK $$ >> pids; exec \"$@\"";
    std::jthread killer([&] {
      for (int tries = 0; tries < 600; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::ifstream in(at("pids"));
        std::vector<pid_t> processes(2, 0);
        int rank = 0;
        for (pid_t process = 0; in >> rank >> process;) processes[static_cast<std::size_t>(rank)] = process;
        if (processes[0] == 0 || processes[1] == 0) continue;
        std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // until it samples
        kill(processes[1], signal);
        return;
      }
    });
    const Outcome o =
        run(mpiexec(),
            {"-n",      "2",         "/bin/sh", "-c",        script,      "sh",      program_path("cirrus").string(),
             "enhance", "long.fits", "--beam",  "none",      "--members", "1000",    "--steps",
             "900",     "--dtype",   "fp32",    "--threads", "1",         "--no-png"},
            settings);
    killer.join();
    BOOST_TEST(o.code == (signal == SIGTERM ? 130 : 9), o.code << ": " << o.err);
    if (signal == SIGTERM) BOOST_TEST(contains(o.err, "rank 1 on "), o.err);
    BOOST_TEST(!fs::exists(at("long_x4.fits")));
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(slow_enhance_ranks)

BOOST_FIXTURE_TEST_CASE(solves_in_beam_mode_are_shared_by_a_team_and_by_all, Ranks) {
  make_map("tall.fits", 12, 320);  // more than one solve takes
  const Outcome o =
      same(3, {"tall.fits", "--beam", "23", "--noise", "0.1", "--tile", "128", "--batch", "1", "--members", "1"}, 0);
  BOOST_TEST(contains(o.out, "3 ranks: 1 member for each team of 3"), o.out);
  same(2, {"tall.fits", "--beam", "23", "--noise", "0.1", "--batch", "1"}, 0);
  same(3, {"tall.fits", "--beam", "23", "--noise", "0.1", "--members", "1"}, kRounding);
}

BOOST_AUTO_TEST_SUITE_END()
