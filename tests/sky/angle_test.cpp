// Angles as users write them.
#include "sky/angle.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"

using cirrus::sky::angle_text;
using cirrus::sky::arcsec_of;

BOOST_AUTO_TEST_SUITE(angles)

BOOST_AUTO_TEST_CASE(units_are_read) {
  BOOST_TEST(arcsec_of("18.2arcsec") == 18.2);
  BOOST_TEST(arcsec_of("18.2") == 18.2);
  BOOST_TEST(arcsec_of(" 5 arcmin ") == 300.0);
  BOOST_TEST(arcsec_of("5'") == 300.0);
  BOOST_TEST(arcsec_of("18.2\"") == 18.2);
  BOOST_TEST(arcsec_of("0.01deg") == 36.0, boost::test_tools::tolerance(1e-15));
  BOOST_TEST(arcsec_of("-1e1arcmin") == -600.0);
  BOOST_TEST(arcsec_of("+3") == 3.0);
  BOOST_TEST(arcsec_of("1rad") == 206264.80624709636, boost::test_tools::tolerance(1e-15));
  BOOST_TEST(arcsec_of("2e3mas") == 2.0);
}

BOOST_AUTO_TEST_CASE(anything_else_is_a_usage_error) {
  for (const char* text :
       {"", " ", "arcsec", "5 parsec", "5arcsecs", "nan", "inf", "1e999", "0x10", "5,3", "++3", "3arcminx", "5 5"})
    BOOST_CHECK_EXCEPTION(arcsec_of(text), cirrus::Error,
                          [](const cirrus::Error& error) { return error.code() == cirrus::ExitCode::usage; });
}

BOOST_AUTO_TEST_CASE(printed_angles_read_back) {
  BOOST_TEST(angle_text(18.2) == "18.2arcsec");
  BOOST_TEST(angle_text(300) == "5arcmin");
  BOOST_TEST(angle_text(5400) == "1.5deg");
  for (const double arcsec : {0.05, 59.0, 60.0, 283.2, 3600.0, 50000.0})
    BOOST_TEST(arcsec_of(angle_text(arcsec)) == arcsec, boost::test_tools::tolerance(1e-5));
}

BOOST_AUTO_TEST_SUITE_END()
