// Units, beams and pixel sizes: the spellings seen in real headers, decisions and their reasons, beam changes,
// matrices.
#include <cmath>
#include <numbers>

#include "fits/header_beam.h"
#include "fits/units.h"
#include "tests/fits/scratch.h"

using namespace cirrus;
using namespace cirrus::fits;
using cirrus::test::exit_code_of;

namespace cirrus::fits {
static std::ostream& operator<<(std::ostream& out, UnitClass unit_class) { return out << name_of(unit_class); }
}  // namespace cirrus::fits

BOOST_AUTO_TEST_SUITE(unit_classes)

BOOST_AUTO_TEST_CASE(every_spelling_has_its_class) {
  const std::pair<UnitClass, std::vector<const char*>> table[] = {
      {UnitClass::brightness,
       {"MJy/sr",
        "MJY/SR",
        "MJY/SR  ",
        "MJy sr-1",
        "MJy sr^-1",
        "MJy.sr**-1",
        "W/m^2-sr",
        "W m-2 sr-1",
        "W/m2/sr",
        "erg / (s sr cm2)",
        "erg/s/cm^2/sr",
        "nW m**(-2) sr**(-1)",
        "kJy/sr",
        "Jy/arcsec^2",
        "Jy arcsec-2",
        "K",
        "mK",
        "K_CMB",
        "uK_RJ",
        "uK",
        "Kelvin",
        "K km/s",
        "K km s-1",
        "tau",
        "mag",
        "mag E(B-V)",
        "E(B-V)",
        "A_V",
        "cm-2",
        "cm^-2",
        "1/cm^2",
        "10^20 cm^-2",
        "1E20 cm-2",
        "H2/cm^2",
        "atoms/cm2",
        "g/cm2",
        "Msun pc-2",
        "M_sun/pc^2",
        "DN/arcsec^2",
        "counts/s/sr"}},
      {UnitClass::per_pixel,
       {"Jy/pix", "Jy/pixel", "JY/PIXEL", "Jy pix-1", "mJy/pix", "counts", "COUNTS  ", "counts/s", "electrons",
        "electrons/s", "e-/s", "adu", "ADU", "DN", "DN/s", "ct", "photons", "W m-2 pixel-1"}},
      {UnitClass::per_beam,
       {"Jy/beam", "Jy/Beam", "JY/BEAM", "mJy/beam", "beam-1 Jy", "Jy beam^-1", "Jy beam-1", "JY/B*M/S", "Jy/bm",
        "K/beam", "JY/BEAM.KM/S"}},
      {UnitClass::unknown,
       {"", "   ", "Jy", "W/m^2", "erg/s/cm2", "furlong", "1", "m/s", "pixel", "beam", "deg", "arcsec"}},
  };
  for (const auto& [unit_class, spellings] : table) {
    for (const char* unit : spellings) {
      const UnitKind kind = classify_unit(unit);
      BOOST_TEST(kind.unit_class == unit_class, unit << " is read as " << name_of(kind.unit_class));
      BOOST_TEST(!kind.logarithmic, unit);
    }
  }
}

BOOST_AUTO_TEST_CASE(logarithmic_units_are_refused_unless_told) {
  for (const char* unit : {"mag/arcsec^2", "mag arcsec-2", "MAG/SQARCSEC", "log10(cm-2)", "log(MJy/sr)", "dex"}) {
    Header header;
    header.set("BUNIT", std::string(unit));
    std::string message;
    BOOST_TEST(exit_code_of([&] { decide_unit(header); }, &message) == ExitCode::bad_data, unit);
    BOOST_TEST(message.find(unit) != std::string::npos);
    const UnitDecision told = decide_unit(header, "brightness");
    BOOST_TEST(told.warnings.size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(decisions_give_their_reason) {
  Header header;
  header.set("BUNIT", std::string("MJY/SR"));
  UnitDecision decision = decide_unit(header);
  BOOST_TEST(decision.reason == "BUNIT = 'MJY/SR': surface brightness, values kept");
  BOOST_TEST(!decision.divides());
  BOOST_TEST(decision.warnings.empty());
  decision = decide_unit(header, "pixel");
  BOOST_TEST(decision.divides());
  BOOST_TEST(decision.warnings.size() == 1u);
  BOOST_TEST(exit_code_of([&] { decide_unit(header, "voxel"); }) == ExitCode::usage);
  header.set("BUNIT", std::string("counts"));
  BOOST_TEST(decide_unit(header).divides());
  BOOST_TEST(!decide_unit(header, "sb").divides());
  header.set("BUNIT", std::string("Jy/beam"));
  BOOST_TEST(decide_unit(header).unit_class == UnitClass::per_beam);
}

BOOST_AUTO_TEST_CASE(other_keywords_are_reported_and_not_obeyed) {
  Header header =
      Header::from_lines("SIGUNIT = 'Jy/pix  '\nCOMMENT the maps are in Jy/beam, roughly\nCOMMENT and/or not");
  const UnitDecision decision = decide_unit(header);
  BOOST_TEST(decision.unit_class == UnitClass::unknown);
  BOOST_TEST(decision.assumed);
  BOOST_TEST(!decision.divides());
  BOOST_REQUIRE(decision.warnings.size() == 3u);
  BOOST_TEST(decision.warnings[1].find("SIGUNIT names the unit 'Jy/pix' (pixel)") == 0u);
  BOOST_TEST(decision.warnings[2].find("'Jy/beam' (beam)") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(beams_and_pixels)

BOOST_AUTO_TEST_CASE(the_beam_is_read_in_arcseconds) {
  Header header =
      Header::from_lines("BMAJ    =  0.3467814737101E-03\nBMIN    =  0.2745724558939E-03\nBPA     =  22.12153897146");
  const auto beam = header_beam(header);
  BOOST_REQUIRE(beam.has_value());
  BOOST_TEST(beam->major_arcsec == 1.24841330535636, boost::test_tools::tolerance(1e-12));
  // The SPIRE handbook's 250 um beam, 18.35 x 17.40 arcsec as a Gaussian: 361.8 arcsec^2 = 1.1331 a b.
  BOOST_TEST((Beam{18.35, 17.40, 0, ""}.area_arcsec2()) == 1.1330900354567985 * 18.35 * 17.40,
             boost::test_tools::tolerance(1e-12));
  BOOST_TEST(!header_beam(Header::from_lines("BMAJ    =           / undefined\nBMIN    = 0.1")).has_value());
  BOOST_TEST(header_beam(Header::from_lines("BMAJ    = 0.01"))->minor_arcsec == 36.0);
  const auto aips = header_beam(Header::from_lines(
      "HISTORY AIPS   CLEAN BMAJ=  1.3889E-03 BMIN=  1.2500E-03 BPA=  12.50\n"
      "HISTORY AIPS   CLEAN BMAJ=  2.7778E-03 BMIN=  2.5000E-03 BPA= -12.50\nHISTORY AIPS   CLEAN NITER= 100"));
  BOOST_REQUIRE(aips.has_value());
  BOOST_TEST(aips->major_arcsec == 10.00008, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(aips->position_angle_deg == -12.5);
}

BOOST_AUTO_TEST_CASE(changing_the_unit_beam_keeps_the_old_one_and_gives_the_area_ratio) {
  Header header =
      Header::from_lines("BMAJ    = 0.01 / beam\nBMIN    = 0.01\nBPA     = 30.0\nPPBEAM  = 10.0\nLAST    = T");
  const double ratio = change_unit_beam(header, {18.0, 18.0, 0.0, ""});
  BOOST_TEST(ratio == 0.25, boost::test_tools::tolerance(1e-14));  // (18 / 36)^2
  BOOST_TEST(header.get<double>("BMAJ").value() == 0.005);
  BOOST_TEST(header.get<double>("BMIN").value() == 0.005);
  BOOST_TEST(header.get<double>("BPA").value() == 0.0);
  BOOST_TEST(header.get<double>("OBMAJ").value() == 0.01);
  BOOST_TEST(header.get<double>("OBPA").value() == 30.0);
  BOOST_TEST(header.get<double>("PPBEAM").value() == 2.5);
  BOOST_TEST(header.cards().back().key() == "LAST");
  Header none;
  BOOST_TEST(exit_code_of([&] { change_unit_beam(none, {18.0, 18.0, 0.0, ""}); }) == ExitCode::bad_data);
}

BOOST_AUTO_TEST_CASE(a_beam_that_is_none_is_refused_by_name) {
  for (const char* value : {"0.0", "-0.1", "'0.01'", "NaN", "T", "1e400"}) {
    const Header major = Header::from_lines(std::string("BMAJ    = ") + value),
                 minor = Header::from_lines(std::string("BMAJ    = 0.01\nBMIN    = ") + value);
    BOOST_TEST(exit_code_of([&] { header_beam(major); }) == ExitCode::bad_data, value);
    BOOST_TEST(exit_code_of([&] { header_resolution(minor); }) == ExitCode::bad_data, value);
    Header replaced = major;
    set_beam(replaced, {18.0, 18.0, 0.0, ""});
    BOOST_TEST(header_beam(replaced)->major_arcsec == 18.0);
    BOOST_TEST(!replaced.has("OBMAJ"));
  }
}

BOOST_AUTO_TEST_CASE(the_resolution_is_not_the_beam_of_the_unit) {
  const Header header = Header::from_lines("BUNIT   = 'Jy/beam'\nBMAJ    = 0.01\nSRBMAJ  = 0.0025");
  BOOST_TEST(header_beam(header)->major_arcsec == 36.0);
  BOOST_TEST(header_resolution(header)->major_arcsec == 9.0);
  BOOST_TEST(header_resolution(header)->source == "SRBMAJ");
  BOOST_TEST(!header_resolution(Header()).has_value());
}

BOOST_AUTO_TEST_CASE(pixel_sizes_of_every_form) {
  const std::string tan = "CTYPE1  = 'RA---TAN'\nCTYPE2  = 'DEC--TAN'\n";
  struct Known {
    std::string lines;
    double x, y, area;
  };
  const double c = std::cos(0.5), s = std::sin(0.5);
  const auto number = [](double v) { return format_number(v); };
  const Known known[] = {
      {tan + "CDELT1  = -0.001\nCDELT2  = 0.002\n", 3.6, 7.2, 3.6 * 7.2},
      {tan + "CDELT1  = -0.001\nCDELT2  = 0.001\nCROTA2  = 33.0\n", 3.6, 3.6, 3.6 * 3.6},
      {tan + "CD1_1   = " + number(-0.001 * c) + "\nCD1_2   = " + number(0.002 * s) +
           "\nCD2_1   = " + number(0.001 * s) + "\nCD2_2   = " + number(0.002 * c) + "\nCDELT1  = 1.0\nCDELT2  = 1.0\n",
       3.6, 7.2, 3.6 * 7.2},
      {tan + "PC1_1   = 0.001\nPC2_2   = 0.001\n", 3.6, 3.6, 3.6 * 3.6},
      {tan + "CUNIT1  = 'arcsec'\nCUNIT2  = 'arcmin'\nCDELT1  = 2.0\nCDELT2  = 2.0\n", 2.0, 120.0, 240.0},
      {"CTYPE1  = 'GLAT-CAR'\nCTYPE2  = 'GLON-CAR'\nCDELT1  = 0.01\nCDELT2  = -0.01\n", 36.0, 36.0, 36.0 * 36.0},
  };
  for (const Known& k : known) {
    const auto scale = pixel_scale(Header::from_lines(k.lines));
    BOOST_REQUIRE_MESSAGE(scale.has_value(), k.lines);
    const auto close = boost::test_tools::tolerance(1e-12);
    BOOST_TEST(scale->x_arcsec == k.x, close);
    BOOST_TEST(scale->y_arcsec == k.y, close);
    BOOST_TEST(scale->arcsec == std::sqrt(k.area), close);
    BOOST_TEST(scale->anisotropy == std::max(k.x, k.y) / std::min(k.x, k.y), close);
  }
  for (const std::string& none :
       {std::string("CDELT1  = 1.0\nCDELT2  = 1.0\n"), std::string(""), tan + "CDELT1  = 0.0\nCDELT2  = 1.0\n",
        tan + "CD1_1   = 0.01\nCD1_2   = 0.01\nCD2_1   = 0.01\nCD2_2   = 0.01\n",
        std::string("CTYPE1  = 'LAMBDA'\nCTYPE2  = 'ANGLE'\nCD1_1   = 0.5\nCD2_2   = 0.1\n")}) {
    BOOST_TEST(!pixel_scale(Header::from_lines(none)).has_value(), none);
  }
}

BOOST_AUTO_TEST_SUITE_END()
