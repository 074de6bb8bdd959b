// Each keyword that carries the pixel follows its rule; real headers give the reference pixels that are known for them.
#include <cmath>

#include "fits/image.h"
#include "fits/scale.h"
#include "fits/wcs_check.h"
#include "tests/fits/scratch.h"

using namespace cirrus;
using namespace cirrus::fits;
using cirrus::fits::testing::has_wcslib;
using cirrus::fits::testing::kCd;
using cirrus::fits::testing::kTan;
using cirrus::fits::testing::real_files;
using cirrus::fits::testing::with_size;
using cirrus::test::exit_code_of;

BOOST_AUTO_TEST_SUITE(scale_keywords)

BOOST_AUTO_TEST_CASE(each_pixel_keyword_follows_its_rule) {
  // Pixels of 10.8 arcsec (0.003 deg).
  Header header = with_size(
      kTan +
      "CDELT1  = -0.003\nCDELT2  = 0.003\n"
      "LTM1_1  = 0.5\nLTM2_2  = 0.5\nLTV1    = 10.0\nLTV2    = -4.0\n"
      "DATASEC = '[1:101,1:64]'\nTRIMSEC = '[1:101,1:64]'\nBIASSEC = '[1:2,1:64]'\nCCDSEC  = '[1:101,1:64]'\n"
      "LBOUND1 = 5\nLBOUND2 = 6\n"
      "PIXSCALE= 10.8 / [arcsec]\nPIXSCAL1= 10.85\nPIXSCAL2= 0.18 / [arcmin]\nSECPIX  = 0.003 / [deg]\nSECPIX1 = "
      "-10.8\n"
      "SECPIX2 = 10.8\nPSCALE  = 11.2\nPIXSIZE = 15.0 / [um]\nXPIXSIZE= 10.8\nYPIXSIZE= 'ten'\n"
      "PIXAR_SR= 2.7E-9\nPIXAR_A2= 116.64\nPPBEAM  = 12.5\nLAM_SCAL= 2048\n"
      "BMAJ    = 0.01\nBMIN    =            / undefined\nBPA     = 12.0\n"
      "BSCALE  = 2.0\nBZERO   = 32768\nBLANK   = -1\nZBLANK  = -2\nZIMAGE  = T\nZTILE1  = 10\nZCMPTYPE= 'RICE_1'\nZD   "
      "   = 34\n"
      "CHECKSUM= 'x'\nDATASUM = '1'\nEXTNAME = 'SCI'\nEXTVER  = 2\nRADESYS = 'FK4'\nEPOCH   = 1950.0\nMEANDC  = 4.0\n");
  const ScaleReport report = scale_header(header, 4, 4);
  const auto number = [&](const char* key) { return header.get<double>(key).value(); };
  BOOST_TEST(number("LTM1_1") == 2.0);
  BOOST_TEST(number("LTV1") == 4 * 10.0 + 0.5 * (1 - 4));
  BOOST_TEST(number("LTV2") == 4 * -4.0 + 0.5 * (1 - 4));
  for (const char* gone : {"DATASEC", "TRIMSEC", "BIASSEC", "CCDSEC", "LBOUND1", "LBOUND2", "BSCALE", "BZERO", "BLANK",
                           "ZBLANK", "ZIMAGE", "ZTILE1", "ZCMPTYPE", "CHECKSUM", "DATASUM"}) {
    BOOST_TEST(!header.has(gone), gone);
  }
  BOOST_TEST(header.commentary("HISTORY").size() == 4u);
  BOOST_TEST(header.commentary("HISTORY")[0].find("DATASEC = '[1:101,1:64]'") != std::string::npos);
  BOOST_TEST(number("PIXSCALE") == 2.7);
  BOOST_TEST(number("PIXSCAL1") == 10.85 / 4);
  BOOST_TEST(number("PIXSCAL2") == 0.045);
  BOOST_TEST(number("SECPIX") == 0.00075);
  BOOST_TEST(number("SECPIX1") == -2.7);
  BOOST_TEST(number("XPIXSIZE") == 2.7);
  BOOST_TEST(number("PSCALE") == 11.2);      // 4 % off the WCS
  BOOST_TEST(number("PIXSIZE") == 15.0);     // micrometres
  BOOST_TEST(report.warnings.size() == 3u);  // PSCALE, PIXSIZE, YPIXSIZE
  BOOST_TEST(number("PIXAR_SR") == 2.7e-9 / 16);
  BOOST_TEST(number("PIXAR_A2") == 7.29);
  BOOST_TEST(number("PPBEAM") == 200.0);
  BOOST_TEST(header.cards()[*header.find("LAM_SCAL")].value_text() == "8192");
  BOOST_TEST(number("BMAJ") == 0.01);
  BOOST_TEST(header.has("BMIN"));
  for (const auto& [key, value] :
       {std::pair{"ZD", 34.0}, {"EXTVER", 2.0}, {"EPOCH", 1950.0}, {"MEANDC", 4.0}, {"CRVAL1", 83.6}}) {
    BOOST_TEST(number(key) == value);
  }
  BOOST_TEST(header.get<std::string>("RADESYS").value() == "FK4");
  BOOST_TEST(!header.has("EQUINOX"));
  BOOST_TEST(number("NAXIS1") == 404.0);
}

BOOST_AUTO_TEST_CASE(physical_coordinates_have_defaults) {
  Header shift_only = with_size("LTV1    = 10.0\n");
  scale_header(shift_only, 2, 2);
  BOOST_TEST(shift_only.get<double>("LTV1").value() == 19.5);
  BOOST_TEST(shift_only.get<double>("LTM1_1").value() == 2.0);
  BOOST_TEST(shift_only.get<double>("LTV2").value() == -0.5);
  BOOST_TEST(shift_only.get<double>("LTM2_2").value() == 2.0);
}

BOOST_AUTO_TEST_CASE(lookup_distortions_are_refused_or_dropped) {
  const std::string lines = kTan + kCd +
                            "CPDIS1  = 'LOOKUP'\nDP1     = 'EXTVER: 1.0'\nDP1.NAXES= 2\nD2IMDIS2= 'LOOKUP'\n"
                            "D2IM2   = 'EXTVER: 1.0'\nD2IMERR2= 0.1\nCPERR1  = 0.2\n";
  Header header = with_size(lines);
  std::string message;
  BOOST_TEST(exit_code_of([&] { scale_header(header, 2, 2); }, &message) == ExitCode::bad_data);
  BOOST_TEST(message.find("CPDIS1") != std::string::npos);
  BOOST_TEST(header.get<double>("CRPIX1").value() == 41.25);  // unchanged by the refusal
  ScaleOptions options;
  options.drop_distortion = true;
  const ScaleReport report = scale_header(header, 2, 2, options);
  for (const char* gone : {"CPDIS1", "DP1", "D2IMDIS2", "D2IM2", "D2IMERR2", "CPERR1"})
    BOOST_TEST(!header.has(gone), gone);
  BOOST_TEST(report.warnings.size() == 1u);
  BOOST_TEST(header.commentary("HISTORY").at(0).find("CPDIS1") != std::string::npos);
  BOOST_TEST(header.get<double>("CRPIX1").value() == 82.0);
}

BOOST_AUTO_TEST_CASE(factors_must_be_positive) {
  Header header = with_size(kTan);
  for (const double s : {0.0, -2.0, std::nan(""), HUGE_VAL}) {
    BOOST_TEST(exit_code_of([&] { scale_header(header, s, 2); }) == ExitCode::internal);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(real_headers)

BOOST_AUTO_TEST_CASE(degrading_msx_gives_the_reference_pixel_of_the_pair) {
  const std::string folder = real_files();
  if (folder.empty()) return;
  Image image = read_image(folder + "MSX_E.fits.gz");
  scale_header(image.header, 0.25, 0.25);
  // The published coarse map carries 75.907, 74.8485: off by up to 15 arcsec. The block mean of pixels 1-596 has these:
  BOOST_TEST(image.header.get<double>("CRPIX1").value() == 75.282, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(image.header.get<double>("CRPIX2").value() == 75.2235, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(image.header.get<int>("NAXIS1").value() == 149);
}

BOOST_AUTO_TEST_CASE(perseus_enlarged_has_the_published_reference_pixel) {
  const std::string folder = real_files();
  if (folder.empty()) return;
  Image image = read_image(folder + "PerA_Extn2MASS_F_Gal.fits");
  scale_header(image.header, 4, 4);
  BOOST_TEST(image.header.get<double>("CRPIX1").value() == -205.5);  // as astwarp --centeroncorner gives
}

BOOST_AUTO_TEST_CASE(pixel_to_sky_agrees_with_astropy) {
  if (!has_wcslib()) return;
  const std::string folder = real_files();
  if (folder.empty()) return;
  struct Known {
    const char* file;
    PixelPoint pixel;
    double lon, lat;
  };
  // astropy.wcs.WCS(header).all_pix2world(x, y, 1)
  const Known known[] = {
      {"PerA_Extn2MASS_F_Gal.fits", {0.5, 313.5}, 164.796602624477, -14.362147647172},
      {"NGC5584_PACS_100.fits.gz", {0.5, 1049.5}, 215.823506285725, 0.190245129798},
      {"MSX_E.fits.gz", {0.5, 599.5}, 0.498546678731, 0.500176678771},
      {"SFD_dust_4096_ngp_cutout.fits", {0.5, 100.5}, 312.143298684224, 31.336376411118},
      {"irsa_dust_test.fits", {0.5, 202.5}, 205.611781791584, 44.468858240604},
      {"awkward/sip-wcs.fits", {0.5, 50.5}, 280.539090562458, 0.117656187492},
      {"awkward/k4m_tpv_ccd2.fits", {0.5, 51.5}, 352.081444693995, 0.206328770303},
      {"awkward/header_newlines.fits", {0.5, 1.5}, 333.113134428877, 3.354844939034},
  };
  for (const Known& k : known) {
    const Image image = read_image(folder + k.file);
    const auto sky = pixel_to_sky(image.header, std::span(&k.pixel, 1));
    BOOST_REQUIRE_MESSAGE(sky.usable, sky.reason);
    BOOST_TEST(std::abs(sky.points[0].lon - k.lon) < 1e-9, k.file);
    BOOST_TEST(std::abs(sky.points[0].lat - k.lat) < 1e-9, k.file);
  }
}

BOOST_AUTO_TEST_SUITE_END()
