// Header arithmetic against WCSLIB: every form of a WCS, synthesised; round trips; each keyword that carries the pixel.
#include <algorithm>
#include <cmath>

#include "fits/image.h"
#include "fits/scale.h"
#include "fits/wcs_check.h"
#include "tests/fits/scratch.h"

using namespace cirrus;
using namespace cirrus::fits;
using cirrus::fits::testing::exit_code_of;
using cirrus::fits::testing::real_files;

namespace {

constexpr std::int64_t kWidth = 101, kHeight = 64;  // odd and even

Header with_size(const std::string& lines) {
  return Header::from_lines(
      "SIMPLE  =                    T\nBITPIX  =                  -32\nNAXIS   =                    2\n"
      "NAXIS1  =                  101\nNAXIS2  =                   64\n" +
      lines);
}

const std::string kTan =
    "CTYPE1  = 'RA---TAN'\nCTYPE2  = 'DEC--TAN'\nCRVAL1  = 83.6\nCRVAL2  = -5.4\nCRPIX1  = 41.25\nCRPIX2  = -17.5\n";
const std::string kCd = "CD1_1   = -0.0031\nCD1_2   = 0.0012\nCD2_1   = 0.0013\nCD2_2   = 0.0030\n";

std::string types(const std::string& lon, const std::string& lat) {
  return "CTYPE1  = '" + lon + "'\nCTYPE2  = '" + lat +
         "'\nCRVAL1  = 30.0\nCRVAL2  = 0.0\nCRPIX1  = 50.5\nCRPIX2  = 32.5\n";
}

struct Form {
  const char* name;
  std::string lines;
};

std::vector<Form> make_forms() {
  const std::string sip =
      "CTYPE1  = 'RA---TAN-SIP'\nCTYPE2  = 'DEC--TAN-SIP'\nCRVAL1  = 83.6\nCRVAL2  = -5.4\nCRPIX1  = 41.25\nCRPIX2  = "
      "-17.5\n" +
      kCd +
      "A_ORDER = 3\nB_ORDER = 3\nA_2_0   = 1.2E-4\nA_1_1   = -3.0E-5\nA_0_3   = 2.0E-7\nA_1_0   = 0.001\n"
      "B_0_2   = -8.0E-5\nB_1_1   = 4.0E-5\nB_2_1   = 3.0E-7\nA_DMAX  = 1.5\n";
  // A plate solution in the manner of the DSS, with a TAN WCS beside it that WCSLIB ignores.
  const std::string dss = kTan + kCd +
                          "PLTRAH  = 5\nPLTRAM  = 34\nPLTRAS  = 10.0\nPLTDECSN= '-'\nPLTDECD = 5\nPLTDECM = 20\n"
                          "PLTDECS = 0.0\nCNPIX1  = 6888\nCNPIX2  = 7210\nXPIXELSZ= 25.284450\nYPIXELSZ= 25.284450\n"
                          "PPO3    = 177500.0\nPPO6    = 177500.0\n"
                          "AMDX1   = 67.2\nAMDX2   = -0.05\nAMDX3   = -12.0\nAMDX7   = 1.0E-5\nAMDX8   = 3.0E-7\n"
                          "AMDX12  = 2.2E-6\nAMDX13  = 2.1E-6\n"
                          "AMDY1   = 67.2\nAMDY2   = 0.06\nAMDY3   = 9.0\nAMDY7   = 2.0E-5\nAMDY12  = 2.2E-6\n";
  return {
      {"CD", kTan + kCd},
      {"CD, missing elements are 0", kTan + "CD1_1   = -0.003\nCD2_2   = 0.003\n"},
      {"CD001001", kTan + "CD001001= -0.0031\nCD001002= 0.0012\nCD002001= 0.0013\nCD002002= 0.0030\n"},
      {"CDELT", kTan + "CDELT1  = -0.003\nCDELT2  = 0.003\n"},
      {"CDELT1 > 0, non-square", kTan + "CDELT1  = 0.003\nCDELT2  = 0.005\n"},
      {"CDELT missing",
       "CTYPE1  = 'LINEAR'\nCTYPE2  = 'LINEAR'\nCRVAL1  = 1.0\nCRVAL2  = 2.0\nCRPIX1  = 4.0\nCRPIX2  = 3.0\n"},
      {"CRPIX missing", types("GLON-CAR", "GLAT-CAR").substr(0, 72) + "CDELT1  = -0.1\nCDELT2  = 0.1\n"},
      {"CROTA2", kTan + "CDELT1  = -0.003\nCDELT2  = 0.003\nCROTA2  = 23.6\n"},
      {"CROTA2, non-square", kTan + "CDELT1  = -0.003\nCDELT2  = 0.005\nCROTA2  = 23.6\n"},
      {"PC", kTan + "PC1_1   = 0.8\nPC1_2   = -0.6\nPC2_1   = 0.6\nPC2_2   = 0.8\nCDELT1  = -0.003\nCDELT2  = 0.003\n"},
      {"PC without its diagonal", kTan + "PC1_2   = -0.2\nCDELT1  = -0.003\nCDELT2  = 0.003\n"},
      {"PC without CDELT", kTan + "PC1_1   = -0.003\nPC1_2   = 0.0004\nPC2_2   = 0.003\n"},
      {"PC01_02",
       kTan + "PC01_01 = 0.8\nPC01_02 = -0.6\nPC02_01 = 0.6\nPC02_02 = 0.8\nCDELT1  = -0.003\nCDELT2  = 0.003\n"},
      {"PC001002",
       kTan + "PC001001= 0.8\nPC001002= -0.6\nPC002001= 0.6\nPC002002= 0.8\nCDELT1  = -0.003\nCDELT2  = 0.003\n"},
      {"PC beside CD",
       kTan + kCd + "PC1_1   = 0.8\nPC1_2   = -0.6\nPC2_1   = 0.6\nPC2_2   = 0.8\nCDELT1  = -0.003\nCDELT2  = 0.003\n"},
      {"CDELT beside CD, agreeing", kTan + "CD1_1   = -0.003\nCD2_2   = 0.003\nCDELT1  = -0.003\nCDELT2  = 0.003\n"},
      {"CDELT beside CD, contradicting", kTan + kCd + "CDELT1  = 1.0\nCDELT2  = 1.0\nCROTA2  = 45.0\n"},
      {"PC mixing a third axis", "WCSAXES = 3\n" + kTan +
                                     "CTYPE3  = 'VRAD'\nCRVAL3  = 1000.0\nCDELT3  = 50.0\nCRPIX3  = 1.0\n"
                                     "CDELT1  = -0.003\nCDELT2  = 0.003\nPC3_1   = 0.01\nPC1_2   = 0.1\n"},
      {"third axis apart", "WCSAXES = 3\n" + kTan +
                               "CTYPE3  = 'VRAD'\nCRVAL3  = 1000.0\nCDELT3  = 50.0\nCRPIX3  = 1.0\n"
                               "CDELT1  = -0.003\nCDELT2  = 0.003\nPC1_1   = 1.0\nPC2_2   = 1.0\nPC3_3   = 1.0\n"},
      {"alternates A and P",
       kTan + kCd +
           "WCSNAMEP= 'PHYSICAL'\nCTYPE1P = 'x'\nCTYPE2P = 'y'\nCRPIX1P = 0.5\nCRPIX2P = 0.5\nCRVAL1P = 2048.5\n"
           "CRVAL2P = 1024.5\nCDELT1P = 2.0\nCDELT2P = 2.0\nLONPOLEB= 180.0\n"
           "CTYPE1A = 'GLON-TAN'\nCTYPE2A = 'GLAT-TAN'\nCRVAL1A = 209.0\nCRVAL2A = -19.4\nCRPIX1A = 41.25\n"
           "CRPIX2A = -17.5\nPC01_02A= 0.3\nCDELT1A = -0.003\nCDELT2A = 0.003\n"},
      {"SIP", sip},
      {"DSS", dss},
      {"RA---GLS", types("RA---GLS", "DEC--GLS") + "CDELT1  = -0.01\nCDELT2  = 0.01\n"},
      {"CAR, CRVAL2 = 10", types("GLON-CAR", "GLAT-CAR") + "CDELT1  = -0.1\nCDELT2  = 0.1\n"},
      {"AIT all-sky, corners empty", types("GLON-AIT", "GLAT-AIT") + "CDELT1  = -3.0\nCDELT2  = 2.4\n"},
      {"AZP", types("RA---AZP", "DEC--AZP") + "CDELT1  = -0.05\nCDELT2  = 0.05\nPV2_1   = 2.0\nPV2_2   = 20.0\n"},
      {"TPV", types("RA---TPV", "DEC--TPV") + kCd +
                  "PV1_0   = 0.001\nPV1_1   = 1.01\nPV1_4   = 0.02\nPV2_1   = 0.99\nPV2_5   = -0.01\n"},
      {"ZPN", types("RA---ZPN", "DEC--ZPN") + kCd + "PV2_1   = 1.0\nPV2_3   = -50.0\n"},
      {"TAN with Fortran exponents", kTan + "CDELT1  =              -3.0D-03\nCDELT2  =               3.0D-03\n"},
      {"duplicated CRPIX1", kTan + kCd + "CRPIX1  = 12.0\n"},
      {"cylindrical, sub-arcsecond", types("GLON-SFL", "GLAT-SFL") + "CDELT1  = -1.0E-5\nCDELT2  = 1.0E-5\n"},
  };
}

const std::vector<Form> kForms = make_forms();

}  // namespace

BOOST_AUTO_TEST_SUITE(scale_forms)

BOOST_AUTO_TEST_CASE(every_form_keeps_its_place_on_the_sky) {
  for (const Form& form : kForms) {
    const Header input = with_size(form.lines);
    for (const auto& [sx, sy] : {std::pair{2.0, 2.0}, {3.0, 3.0}, {4.0, 4.0}, {0.25, 0.25}, {2.0, 3.0}, {1.0, 5.0}}) {
      for (const double offset : {0.0, 7.0, -3.0}) {
        BOOST_TEST_CONTEXT(form.name << ", " << sx << " x " << sy << ", offset " << offset) {
          Header output = input;
          ScaleOptions options;
          options.offset_x = offset;
          options.offset_y = -2.0 * offset;
          scale_header(output, sx, sy, options);
          const WcsCheck check = compare_wcs(input, output, kWidth, kHeight, sx, sy, offset, -2.0 * offset);
          BOOST_CHECK_MESSAGE(check.usable, check.reason);
          BOOST_TEST(check.points >= 5);
          BOOST_TEST(check.max_distance_px < 1e-6);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_plate_solution_is_what_counts_in_a_dss_header) {
  // WCSLIB prefers the plate over CRPIX and CD: scaling those alone would leave the map in the wrong place.
  const auto dss =
      std::find_if(begin(kForms), end(kForms), [](const Form& form) { return std::string(form.name) == "DSS"; });
  const Header input = with_size(dss->lines);
  Header output = input;
  scale_header(output, 4, 4);
  output.set("CNPIX1", 6888);
  output.set("XPIXELSZ", 25.28445);
  BOOST_TEST(compare_wcs(input, output, kWidth, kHeight, 4, 4).max_distance_px > 100.0);
}

BOOST_AUTO_TEST_CASE(a_wrong_header_is_noticed) {
  const Header input = with_size(kTan + kCd);
  Header output = input;
  scale_header(output, 4, 4);
  output.set("CRPIX1", *output.get<double>("CRPIX1") + 0.5);
  const WcsCheck check = compare_wcs(input, output, kWidth, kHeight, 4, 4);
  BOOST_TEST(check.max_distance_px == 0.5, boost::test_tools::tolerance(1e-3));
  BOOST_TEST(!check.ok());
}

BOOST_AUTO_TEST_CASE(degrading_the_enlarged_header_returns_the_input) {
  for (const Form& form : kForms) {
    BOOST_TEST_CONTEXT(form.name) {
      const Header input = with_size(form.lines);
      Header header = input;
      scale_header(header, 4, 4);
      BOOST_TEST(header.get<int>("NAXIS1").value() == 404);
      scale_header(header, 0.25, 0.25);
      BOOST_TEST(header.get<int>("NAXIS1").value() == 101);
      const auto points = nine_points(kWidth, kHeight);
      const auto a = pixel_to_sky(input, points), b = pixel_to_sky(header, points);
      BOOST_REQUIRE(a.points.size() == b.points.size());
      for (std::size_t i = 0; i < a.points.size(); ++i) {
        BOOST_TEST(a.points[i].valid == b.points[i].valid);
        BOOST_TEST(std::abs(a.points[i].lon - b.points[i].lon) < 1e-9);
        BOOST_TEST(std::abs(a.points[i].lat - b.points[i].lat) < 1e-9);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_formalism_stays) {
  const auto keys_after = [](const std::string& lines) {
    Header header = with_size(lines);
    scale_header(header, 4, 4);
    return header;
  };
  const Header cd = keys_after(kTan + kCd);
  BOOST_TEST(cd.get<double>("CD1_2").value() == 0.0003);
  BOOST_TEST(!cd.has("PC1_1"));
  BOOST_TEST(!cd.has("CDELT1"));
  const Header pc = keys_after(kForms[9].lines);
  BOOST_TEST(pc.get<double>("PC1_2").value() == -0.6);  // the matrix keeps its rotation, CDELT carries the size
  BOOST_TEST(pc.get<double>("CDELT2").value() == 0.00075);
  const Header rotated = keys_after(kTan + "CDELT1  = -0.003\nCDELT2  = 0.003\nCROTA2  = 23.6\n");
  BOOST_TEST(rotated.get<double>("CROTA2").value() == 23.6);
  const Header orphan = keys_after(kTan + kCd + "LONPOLEA= 180.0\n");
  BOOST_TEST(!orphan.has("CRPIX1A"));
  BOOST_TEST(orphan.has("LONPOLEA"));
  Header none = with_size("OBJECT  = 'simulation'\n");
  const ScaleReport report = scale_header(none, 4, 4);
  BOOST_TEST(none.size() == 6u);
  BOOST_TEST(report.changes.size() == 2u);
}

BOOST_AUTO_TEST_CASE(contradictions_are_settled_and_reported) {
  Header both = with_size(kTan + kCd + "PC1_1   = 1.0\nPC2_2   = 1.0\nCDELT1  = -0.003\nCDELT2  = 0.003\n");
  ScaleReport report = scale_header(both, 2, 2);
  BOOST_TEST(!both.has("CD1_1"));
  BOOST_TEST(both.has("PC1_1"));
  BOOST_TEST(report.warnings.size() == 1u);
  BOOST_TEST(both.commentary("HISTORY").at(0).find("CD matrix") != std::string::npos);

  Header agreeing = with_size(kTan + "CD1_1   = -0.003\nCD2_2   = 0.003\nCDELT1  = -0.003\nCDELT2  = 0.003\n");
  report = scale_header(agreeing, 2, 2);
  BOOST_TEST(agreeing.get<double>("CDELT1").value() == -0.0015);
  BOOST_TEST(report.warnings.size() == 1u);

  Header contradicting = with_size(kTan + kCd + "CDELT1  = 1.0\nCDELT2  = 1.0\n");
  report = scale_header(contradicting, 2, 2);
  BOOST_TEST(!contradicting.has("CDELT1"));
  BOOST_TEST(report.warnings.size() == 1u);

  Header twice = with_size(kTan + kCd + "CRPIX1  = 12.0\n");
  report = scale_header(twice, 2, 2);
  BOOST_TEST(report.warnings.size() == 1u);
  BOOST_TEST(twice.get<double>("CRPIX1").value() == 82.0);
  BOOST_TEST(twice.cards().back().number().value() == 23.5);

  Header no_sip = with_size(kTan + kCd + "A_ORDER = 2\nB_ORDER = 2\nA_2_0   = 1.0E-4\n");
  report = scale_header(no_sip, 2, 2);
  BOOST_TEST(no_sip.get<double>("A_2_0").value() == 5.0e-5);
  BOOST_TEST(report.warnings.size() == 1u);
}

BOOST_AUTO_TEST_CASE(bad_headers_have_no_usable_wcs_and_do_not_throw) {
  const char* singular_projection = "CTYPE1  = 'RA---TAN'\nCTYPE2  = 'GLAT-CAR'\nCRPIX1  = 1.0\n";
  const char* unknown = "CTYPE1  = 'RA---XYZ'\nCTYPE2  = 'DEC--XYZ'\nCRPIX1  = 1.0\n";
  const char* singular = "CTYPE1  = 'RA---TAN'\nCTYPE2  = 'DEC--TAN'\nPC1_1   = 0.0\nPC2_2   = 0.0\n";
  for (const char* lines : {singular_projection, unknown, singular}) {
    const Header input = with_size(lines);
    Header output = input;
    scale_header(output, 4, 4);
    const WcsCheck check = compare_wcs(input, output, kWidth, kHeight, 4, 4);
    BOOST_TEST(!check.usable);
    BOOST_TEST(!check.reason.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()

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
