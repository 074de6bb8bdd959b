// Header arithmetic against WCSLIB: every form of a WCS, synthesised, enlarged, degraded and cropped; contradictory
// headers.
#include <algorithm>
#include <cmath>

#include "fits/scale.h"
#include "fits/wcs_check.h"
#include "tests/fits/scratch.h"

using namespace cirrus;
using namespace cirrus::fits;
using cirrus::fits::testing::has_wcslib;
using cirrus::fits::testing::kCd;
using cirrus::fits::testing::kTan;
using cirrus::fits::testing::with_size;

namespace {

constexpr std::int64_t kWidth = 101, kHeight = 64;  // odd and even

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
  if (!has_wcslib()) return;
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
  if (!has_wcslib()) return;
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
  if (!has_wcslib()) return;
  const Header input = with_size(kTan + kCd);
  Header output = input;
  scale_header(output, 4, 4);
  output.set("CRPIX1", *output.get<double>("CRPIX1") + 0.5);
  const WcsCheck check = compare_wcs(input, output, kWidth, kHeight, 4, 4);
  BOOST_TEST(check.max_distance_px == 0.5, boost::test_tools::tolerance(1e-3));
  BOOST_TEST(!check.ok());
}

BOOST_AUTO_TEST_CASE(degrading_the_enlarged_header_returns_the_input) {
  if (!has_wcslib()) return;
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

BOOST_AUTO_TEST_CASE(what_would_crash_or_hang_wcslib_does_not_reach_it) {
  const std::string quote = "COMMENT   FITS (Flexible Image Transport System) format is defined in 'Astronomy\n";
  const std::string bytes = "CRPIX1  =                 50.0 / SAMPLE AX" + std::string(44, '\x80') + "IS ORIGIN\n";
  for (const std::string& lines : {"CTYPE2  = 'DEC--TAN never closed\n" + quote, bytes, kTan + kCd + bytes + quote}) {
    const Header input = with_size(lines);
    Header output = input;
    scale_header(output, 2, 2);
    const WcsCheck check = compare_wcs(input, output, kWidth, kHeight, 2, 2);
    BOOST_TEST((!check.usable || check.max_distance_px < 1e-6));
  }
}

BOOST_AUTO_TEST_SUITE_END()
