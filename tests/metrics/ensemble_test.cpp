// Student's t against SciPy 1.17 (stats.t.ppf, special.betainc), and calibration of Gaussian ensembles whose answer is
// known.
#include "metrics/ensemble.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "fields.h"
#include "metrics/student_t.h"

using namespace cirrus;
using namespace cirrus::metrics;
using tests::white_noise;

BOOST_AUTO_TEST_SUITE(student_t)

BOOST_AUTO_TEST_CASE(quantiles_agree_with_scipy) {
  struct Row {
    double p, dof, t;
  };
  for (const auto& [p, dof, t] :
       {Row{0.84134475, 1, 1.8373372555173486}, Row{0.975, 1, 12.706204736174694}, Row{0.9999, 1, 3183.098757118502},
        Row{0.6, 1, 0.32491969623290634}, Row{0.1, 1, -3.0776835371752536}, Row{0.84134475, 2, 1.3212774014276347},
        Row{0.975, 3, 3.1824463052837078}, Row{0.84134475, 7, 1.0767133942670284}, Row{0.975, 7, 2.364624251592784},
        Row{0.6, 7, 0.2631668613520229}, Row{0.9999, 7, 7.063432828157639}, Row{0.84134475, 49, 1.0103087519106353},
        Row{0.975, 49, 2.0095752371292392}, Row{0.1, 49, -1.2990687847477498},
        Row{0.84134475, 1000, 1.0005002663264109}, Row{0.9999, 1000, 3.7328516045753966}}) {
    BOOST_TEST(student_t_quantile(p, dof) == t, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(student_t_cdf(t, dof) == p, boost::test_tools::tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_CASE(the_incomplete_beta_function_agrees_with_scipy) {
  BOOST_TEST(incomplete_beta(0.5, 0.5, 0.3) == 0.36901011956554536, boost::test_tools::tolerance(1e-13));
  BOOST_TEST(incomplete_beta(3.5, 0.5, 0.9) == 0.40708382206558924, boost::test_tools::tolerance(1e-13));
  BOOST_TEST(incomplete_beta(100, 0.5, 0.99) == 0.1567758654244408, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(incomplete_beta(2, 3, 0.1) == 0.0523, boost::test_tools::tolerance(1e-13));
  BOOST_TEST(incomplete_beta(25, 0.5, 0.9999) == 0.9439072927677358, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(incomplete_beta(2, 3, 0) == 0.0);
  BOOST_TEST(incomplete_beta(2, 3, 1) == 1.0);
}

BOOST_AUTO_TEST_CASE(impossible_probabilities_are_refused) {
  BOOST_TEST(student_t_quantile(0.5, 7) == 0.0);
  for (const double p : {0.0, 1.0, -1.0, double(NAN)}) BOOST_CHECK_THROW(student_t_quantile(p, 7), Error);
  BOOST_CHECK_THROW(student_t_quantile(0.9, 0), Error);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(ensemble)

namespace {
/// Maps already in T: the transform of members and truth is undone by sinh.
EnsembleFigures figures_of(const at::Tensor& members, const at::Tensor& truth) {
  return ensemble_figures(members.sinh(), truth.sinh(), {0, 1});
}
}  // namespace

BOOST_AUTO_TEST_CASE(gaussian_members_are_calibrated_at_any_number) {
  const at::Tensor centre = white_noise({256, 256}, 1), truth = centre + 0.3 * white_noise({256, 256}, 2);
  for (const int64_t n : {2, 4, 8, 30}) {
    const EnsembleFigures figures =
        figures_of(centre + 0.3 * white_noise({n, 256, 256}, 10 + static_cast<std::uint64_t>(n)), truth);
    // 65536 pixels: the standard deviation of a coverage is 0.002; other tolerances are 4 of theirs.
    BOOST_CHECK_SMALL(figures.coverage - 0.6827, 0.008);
    BOOST_CHECK_SMALL(figures.coverage95 - 0.95, 0.004);
    BOOST_CHECK_SMALL(figures.spread_skill - 1, 0.015);
    BOOST_CHECK_SMALL(figures.crps - 0.3 / std::sqrt(M_PI), 0.003);
    BOOST_TEST(figures.rank.size() == static_cast<size_t>(n + 1));
    for (const double share : figures.rank) BOOST_CHECK_SMALL(share - 1.0 / static_cast<double>(n + 1), 0.008);
  }
}

BOOST_AUTO_TEST_CASE(too_narrow_an_ensemble_is_found_out) {
  const at::Tensor centre = white_noise({256, 256}, 3), truth = centre + 0.3 * white_noise({256, 256}, 4);
  const EnsembleFigures figures = figures_of(centre + 0.15 * white_noise({8, 256, 256}, 5), truth);
  BOOST_CHECK_SMALL(figures.spread_skill - 0.15 * std::sqrt(9.0 / 8) / std::sqrt(0.09 + 0.0225 / 8), 0.01);
  BOOST_TEST(figures.coverage < 0.45);
  BOOST_TEST(figures.rank.front() > 0.2);
  BOOST_TEST(figures.rank.back() > 0.2);
}

BOOST_AUTO_TEST_CASE(two_members_by_hand) {
  // Members 1 and 3 around truth 2.5: mean |x - t| = 1, |x1 - x2| / (2 * 1) = 1, so the fair CRPS is 0; rank 1 of 0..2.
  const at::Tensor members = at::stack({at::full({1, 1}, 3.0, at::kDouble), at::full({1, 1}, 1.0, at::kDouble)});
  const EnsembleFigures figures = figures_of(members, at::full({1, 1}, 2.5, at::kDouble));
  BOOST_CHECK_SMALL(figures.crps, 1e-12);
  BOOST_TEST(figures.spread_skill == std::sqrt(2 * 1.5) / 0.5, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(figures.rank == (std::vector<double>{0, 1, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(one_member_has_no_calibration) {
  BOOST_CHECK_THROW(figures_of(white_noise({1, 4, 4}, 6), white_noise({4, 4}, 7)), Error);
  BOOST_CHECK_THROW(figures_of(white_noise({3, 4, 5}, 6), white_noise({4, 4}, 7)), Error);
}

BOOST_AUTO_TEST_SUITE_END()
