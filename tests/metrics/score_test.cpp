// Every figure against an independent implementation of the same definitions in numpy and scipy, on maps of the
// validation set: two modes, two factors, four families, maps that are neither square nor a power of two, five members.
// score_reference.json holds what that implementation gave.
#include "metrics/score.h"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "fields.h"
#include "metrics/map.h"
#include "metrics/transform.h"

using namespace cirrus;
using namespace cirrus::metrics;
using nlohmann::json;

namespace {

std::optional<json> reference() {
  const char* source = std::getenv("CIRRUS_SOURCE");
  if (!source) {
    std::cout << "skipped: CIRRUS_SOURCE does not say where the source tree is\n";
    return std::nullopt;
  }
  std::ifstream file(std::string(source) + "/tests/metrics/score_reference.json");
  BOOST_REQUIRE(file);
  return json::parse(file);
}

std::optional<Case> case_of(const json& row) {
  const std::string field = row["field"], mode = row["mode"];
  const int64_t s = row["factor"];
  auto truth = tests::validation_map(field + "_truth.fits");
  if (!truth) return std::nullopt;
  auto lr = tests::validation_map(field + "_" + mode + "_x" + std::to_string(s) + ".fits");
  if (!row["crop"].is_null()) {
    const std::vector<int64_t> crop = row["crop"];  // first row, first column, rows, columns of the low-resolution map
    lr = lr->narrow(0, crop[0], crop[2]).narrow(1, crop[1], crop[3]);
    truth = truth->narrow(0, s * crop[0], s * crop[2]).narrow(1, s * crop[1], s * crop[3]);
  }
  Case question{*truth, *lr, s, row["beam_lr"], row["beam_hr"], {}};
  if (!row["noise"].is_null()) question.noise = row["noise"].get<double>();
  return question;
}

/// The Wiener map with waves in T that both implementations can write down.
at::Tensor wavy_members(const Case& question, int64_t n) {
  const Transform transform = Transform::of(question.lr);
  const at::Tensor base = transform.forward(baseline("wiener", question));
  const at::Tensor y = at::arange(base.size(0), at::kDouble).unsqueeze(1) / static_cast<double>(base.size(0));
  const at::Tensor x = at::arange(base.size(1), at::kDouble).unsqueeze(0) / static_cast<double>(base.size(1));
  std::vector<at::Tensor> members;
  for (int64_t i = 0; i < n; ++i) {
    const at::Tensor phase = 2 * M_PI * ((7 * i + 3) * x + (2 * i + 5) * y) + i;
    members.push_back(transform.inverse(base + 0.15 * phase.sin()));
  }
  return at::stack(members);
}

// Both sides sum doubles in their own order and call their own FFT; what is left is rounding, amplified most where a
// difference of nearly equal maps is scored.
constexpr double kTolerance = 1e-6;

void compare(const std::string& where, const json& got, const json& want) {
  for (const auto& [key, value] : want.items()) {
    BOOST_REQUIRE_MESSAGE(got.contains(key), where << " lacks " << key);
    if (value.is_array()) {
      BOOST_REQUIRE_EQUAL(got[key].size(), value.size());
      for (size_t i = 0; i < value.size(); ++i) {
        const double a = got[key][i], b = value[i];
        BOOST_CHECK_MESSAGE(std::abs(a - b) <= kTolerance * std::abs(b) + 1e-9,
                            where << " " << key << "[" << i << "] " << a << " against " << b);
      }
    } else {
      // The flux error of a Wiener map is itself rounding of the regularisation, near 1e-6: absolute there.
      const double a = got[key], b = value;
      BOOST_CHECK_MESSAGE(std::abs(a - b) <= kTolerance * std::abs(b) + 1e-12,
                          where << " " << key << " " << a << " against " << b);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(score_reference)

BOOST_AUTO_TEST_CASE(baselines_and_figures_agree_with_the_reference) {
  const auto rows = reference();
  if (!rows) return;
  for (const json& row : *rows) {
    const auto question = case_of(row);
    if (!question) return;
    const Transform transform = Transform::of(question->lr);
    BOOST_TEST(transform.m == row["m"].get<double>(), boost::test_tools::tolerance(1e-12));
    BOOST_TEST(transform.a == row["a"].get<double>(), boost::test_tools::tolerance(1e-12));
    for (const std::string_view name : baseline_names()) {
      const json& want = row["methods"][std::string(name)];
      const std::string where =
          row["field"].get<std::string>() + " " + row["mode"].get<std::string>() + " " + std::string(name);
      const at::Tensor map = baseline(name, *question);
      const double scale = want["rms"];
      BOOST_TEST(map.mean().item<double>() == want["mean"].get<double>(), boost::test_tools::tolerance(1e-9));
      BOOST_TEST(rms(map) == scale, boost::test_tools::tolerance(1e-9));
      for (const json& pixel : want["pixels"]) {
        const double got = map[pixel[0].get<int64_t>()][pixel[1].get<int64_t>()].item<double>();
        BOOST_CHECK_SMALL((got - pixel[2].get<double>()) / scale, 1e-9);
      }
      compare(where, json(to_json(score(*question, map))), want["score"]);
    }
  }
}

BOOST_AUTO_TEST_CASE(members_and_samples_agree_with_the_reference) {
  const auto rows = reference();
  if (!rows) return;
  for (const json& row : *rows) {
    const auto question = case_of(row);
    if (!question) return;
    const at::Tensor members = wavy_members(*question, 5);
    const Transform transform = Transform::of(question->lr);
    const at::Tensor mean = transform.inverse(transform.forward(members).mean(0));
    const std::string where = row["field"].get<std::string>() + " " + row["mode"].get<std::string>() + " members";
    compare(where, json(to_json(score(*question, mean, members))), row["methods"]["members"]["score"]);
    compare(where + " and sample", json(to_json(score(*question, mean, members, members[3]))),
            row["methods"]["members_sample"]["score"]);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(score)

namespace {
Case sky_case(std::uint64_t seed = 1) {
  const at::Tensor truth = tests::dust_sky(seed);
  return {truth, tests::block_mean(truth, 4), 4, 0, 2.3, {}};
}
}  // namespace

BOOST_AUTO_TEST_CASE(the_truth_scores_perfectly) {
  const Case question = sky_case();
  const Score perfect = metrics::score(question, question.truth);
  for (const auto& [value, want] : {std::pair{perfect.rT, 0.0},
                                    {perfect.rL, 0.0},
                                    {perfect.ssim, 1.0},
                                    {perfect.ps, 1.0},
                                    {perfect.ps_lin, 1.0},
                                    {perfect.r_lo, 1.0},
                                    {perfect.r_hi, 1.0},
                                    {perfect.k_half, 0.5},
                                    {perfect.seam, 1.0},
                                    {perfect.grid, 1.0}}) {
    BOOST_REQUIRE(value);
    BOOST_CHECK_SMALL(*value - want, 1e-9);
  }
  BOOST_TEST(*perfect.flux_error < 1e-12);
  BOOST_TEST(std::isinf(*perfect.psnr));
  BOOST_TEST(!perfect.chi2);
  BOOST_TEST(!perfect.crps);
}

BOOST_AUTO_TEST_CASE(bicubic_scores_one) {
  const Case question = sky_case();
  const Score bicubic = metrics::score(question, baseline("bicubic", question));
  BOOST_CHECK_SMALL(*bicubic.rT - 1, 1e-12);
  BOOST_CHECK_SMALL(*bicubic.rL - 1, 1e-12);
  BOOST_CHECK_SMALL(*bicubic.seam - 1, 1e-12);
}

BOOST_AUTO_TEST_CASE(psnr_falls_by_the_decibels_of_the_error) {
  const Case question = sky_case();
  const Transform transform = Transform::of(question.lr);
  const at::Tensor t = transform.forward(question.truth);
  const auto with_error = [&](double e) { return *metrics::score(question, transform.inverse(t + e)).psnr; };
  BOOST_TEST(with_error(0.01) - with_error(0.1) == 20.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_change_of_unit_changes_no_figure) {
  const Case question = sky_case();
  const at::Tensor map = baseline("lanczos", question);
  const Case scaled{1e6 * question.truth + 3e5, 1e6 * question.lr + 3e5, 4, 0, 2.3, {}};
  const Score a = metrics::score(question, map), b = metrics::score(scaled, 1e6 * map + 3e5);
  for (const Figure& figure : figures()) {
    if (figure.name == "flux_error") continue;  // relative to the flux, so it depends on the zero level
    BOOST_REQUIRE_EQUAL((a.*figure.value).has_value(), (b.*figure.value).has_value());
    if (const auto& value = a.*figure.value)
      BOOST_TEST(*value == *(b.*figure.value), boost::test_tools::tolerance(1e-7));
  }
}

BOOST_AUTO_TEST_CASE(wrong_outputs_are_refused) {
  const Case question = sky_case();
  const auto bad_data = [](const Error& e) { return e.code() == ExitCode::bad_data; };
  BOOST_CHECK_EXCEPTION(metrics::score(question, question.lr), Error, bad_data);
  at::Tensor holed = question.truth.clone();
  holed[3][4] = NAN;
  BOOST_CHECK_EXCEPTION(metrics::score(question, holed), Error, bad_data);
  BOOST_CHECK_EXCEPTION(metrics::score({holed, question.lr, 4, 0, 0, {}}, question.truth), Error, bad_data);
  BOOST_CHECK_EXCEPTION(metrics::score({question.truth, question.lr, 2, 0, 0, {}}, question.truth), Error, bad_data);
  BOOST_CHECK_EXCEPTION(metrics::score(question, question.truth, question.truth), Error, bad_data);
  BOOST_CHECK_EXCEPTION(metrics::score(question, question.truth, at::stack({holed, holed})), Error, bad_data);
}

BOOST_AUTO_TEST_CASE(a_small_map_has_the_figures_that_fit) {
  const at::Tensor truth = tests::dust_sky(3, 32).narrow(0, 0, 8).narrow(1, 0, 8);
  const Case question{truth, tests::block_mean(truth, 4), 4, 0, 2.3, {}};
  const Score small = metrics::score(question, baseline("spline", question));
  BOOST_TEST(small.rT.has_value());
  BOOST_TEST(!small.ssim);
  BOOST_TEST(!small.seam);
}

BOOST_AUTO_TEST_CASE(means_are_geometric_for_power_and_skip_what_is_missing) {
  Score a, b, c;
  a.rT = 1, b.rT = 3;
  for (const auto power : {&Score::ps_lin, &Score::sample_ps, &Score::sample_ps_lin}) a.*power = 0.5, b.*power = 2;
  a.ps = 0.5, b.ps = 2;
  a.chi2 = 4;
  a.ps_k = {0.25, NAN}, b.ps_k = {4, 9};
  a.rank = {0.5, 0.5}, a.members = 1;
  b.rank = {0.1, 0.2, 0.7}, b.members = 2;
  const Score mean = mean_score(std::array{a, b, c});
  BOOST_TEST(*mean.rT == 2.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(*mean.ps == 1.0, boost::test_tools::tolerance(1e-12));
  for (const auto power : {&Score::ps_lin, &Score::sample_ps, &Score::sample_ps_lin})
    BOOST_TEST(*(mean.*power) == 1.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(*mean.chi2 == 4.0);
  BOOST_TEST(!mean.crps);
  BOOST_TEST(mean.ps_k[0] == 1.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(mean.ps_k[1] == 9.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(mean.rank.empty());  // histograms of different length have no mean
}

BOOST_AUTO_TEST_CASE(json_names_figures_twice_where_users_know_both) {
  Score s;
  s.coverage = 0.7;
  s.k_half = 0.2;
  const auto json = to_json(s);
  BOOST_TEST(json["coverage"] == json["coverage68"]);
  BOOST_TEST(json["k_half"] == json["coherence_half"]);
  BOOST_TEST(!json.contains("rT"));
  BOOST_TEST(find_figure("coverage68") == find_figure("coverage"));
  BOOST_TEST(find_figure("nonsense") == nullptr);
  BOOST_TEST(find_figure("") == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
