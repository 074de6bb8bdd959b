// Rows, means of families, and what a figure that is missing looks like.
#include "metrics/table.h"

#include <boost/test/unit_test.hpp>

using namespace cirrus::metrics;

BOOST_AUTO_TEST_SUITE(table)

BOOST_AUTO_TEST_CASE(families_are_averaged_apart_and_together) {
  std::vector<Row> rows(3);
  rows[0] = {"01", "lognormal", {}};
  rows[1] = {"02", "cascade", {}};
  rows[2] = {"03", "lognormal", {}};
  rows[0].score.rT = 0.5, rows[1].score.rT = 2, rows[2].score.rT = 1.5;
  rows[0].score.ps = 4, rows[2].score.ps = 1;
  const std::vector<Mean> averages = means(rows);
  BOOST_REQUIRE_EQUAL(averages.size(), 3u);
  BOOST_TEST(averages[0].family == "lognormal");
  BOOST_TEST(*averages[0].score.rT == 1.0);
  BOOST_TEST(*averages[0].score.ps == 2.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(!averages[1].score.ps);
  BOOST_TEST(averages[2].family == "all");
  BOOST_TEST(*averages[2].score.rT == 4.0 / 3, boost::test_tools::tolerance(1e-12));

  const std::string want =
      "field family                rT           ps\n"
      "01    lognormal            0.5            4\n"
      "02    cascade                2            -\n"
      "03    lognormal            1.5            1\n"
      "mean  lognormal              1            2\n"
      "mean  cascade                2            -\n"
      "mean  all                1.333            2\n";
  BOOST_TEST(cirrus::metrics::table(rows) == want);
}

BOOST_AUTO_TEST_SUITE_END()
