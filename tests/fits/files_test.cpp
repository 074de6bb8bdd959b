// Every real file of the test data: enlarged 2, 3 and 4 times by repeating pixels, written, read back; or refused as it
// should be.
#include <cmath>
#include <cstdio>
#include <set>

#include "fits/image.h"
#include "fits/mask.h"
#include "fits/scale.h"
#include "fits/wcs_check.h"
#include "fits/writer.h"
#include "tests/fits/scratch.h"

using namespace cirrus;
using namespace cirrus::fits;
using cirrus::fits::testing::has_wcslib;
using cirrus::fits::testing::real_files;
using cirrus::fits::testing::Scratch;
using cirrus::test::exit_code_of;

namespace {

struct Case {
  const char* file;
  ExitCode code = ExitCode::ok;  // of reading or scaling
  const char* says = "";         // part of the message
  std::int64_t width = 0, height = 0;
  bool has_wcs = true;
  std::int64_t plane = 0;
  std::int64_t blanks = 0;
  bool drop_distortion = false;
};

// Sizes, blanks and refusals as notes and astropy 5.2 give them.
const Case kCases[] = {
    {"PerA_Extn2MASS_F_Gal.fits", ExitCode::ok, "", 217, 313},
    {"L1551_scuba_850mu.fits", ExitCode::ok, "", 171, 156},
    {"irsa_dust_test.fits", ExitCode::ok, "", 202, 202},
    {"SFD_dust_4096_ngp_cutout.fits", ExitCode::ok, "", 100, 100},
    {"gc_msx_e.fits", ExitCode::ok, "", 149, 149},
    {"MSX_E.fits.gz", ExitCode::ok, "", 599, 599},
    {"lmc.fits", ExitCode::ok, "", 100, 100},
    {"NGC5584_PACS_100.fits.gz", ExitCode::ok, "", 1050, 1049},
    {"pywst_I_1.fits", ExitCode::ok, "", 512, 512, false},
    {"awkward/gc_2mass_k.fits", ExitCode::ok, "", 721, 720},
    {"awkward/scale.fits", ExitCode::ok, "", 20, 21},
    {"awkward/galactic_2d.fits", ExitCode::ok, "", 43, 43},
    {"awkward/l1448_13co.fits", ExitCode::bad_data, "53 planes"},
    {"awkward/l1448_13co.fits", ExitCode::ok, "", 105, 105, true, 30},
    {"awkward/equatorial_3d.fits", ExitCode::bad_data, "4 planes"},
    {"awkward/equatorial_3d.fits", ExitCode::ok, "", 7, 5, true, 4},
    {"awkward/example_cube.fits", ExitCode::bad_data, "7 planes"},
    {"awkward/example_cube.fits", ExitCode::ok, "", 3, 4, true, 7},
    {"awkward/example_cube.fits", ExitCode::usage, "--plane 1 to 7", 0, 0, true, 8},
    {"awkward/image_with_distortion_map.fits", ExitCode::bad_data, "CPDIS1"},
    {"awkward/image_with_distortion_map.fits", ExitCode::ok, "", 100, 100, false, 0, 0, true},
    {"awkward/sip-wcs.fits", ExitCode::ok, "", 100, 50},
    {"awkward/header_newlines.fits", ExitCode::ok, "", 1, 1},
    {"awkward/validate.fits", ExitCode::bad_data, "no 2-D image"},
    {"awkward/k4m_tpv_ccd2.fits", ExitCode::ok, "", 51, 51},
    {"awkward/o4sp040b0_raw.fits", ExitCode::ok, "", 62, 44},
    {"awkward/blank.fits", ExitCode::ok, "", 1, 1, false, 0, 1},
    {"awkward/m13.fits", ExitCode::ok, "", 300, 300},
    {"awkward/m13_rice.fits", ExitCode::ok, "", 300, 300},
    {"awkward/m13_hcomp.fits", ExitCode::ok, "", 300, 300},
    {"awkward/compressed_with_nan.fits", ExitCode::ok, "", 12, 12, false, 0, 1},
    {"awkward/compressed_float_bzero.fits", ExitCode::bad_data, "no 2-D image"},
    {"awkward/test_rice_dither2_seed42.fits.fz", ExitCode::ok, "", 100, 100, false},
    {"awkward/healpix_wmap_V_nside32.fits", ExitCode::bad_data, "project it to a flat map first"},
};

/// Number of errors fitsverify finds, or -1 where it is not installed.
int fitsverify_errors(const std::string& path, std::string* report = nullptr) {
  FILE* pipe = popen(("fitsverify '" + path + "' 2>&1").c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  pclose(pipe);
  if (report != nullptr) *report = text;
  const auto at = text.find("warning(s) and ");
  if (at == std::string::npos) return -1;
  return std::atoi(text.c_str() + at + 15);
}

/// The card of each input keyword is in the output unless it is one that had to change; what is there stands in the
/// same order.
void check_cards_kept(const Header& before, const Header& after, const ScaleReport& report) {
  std::set<std::string> changed = {"DATE", "CREATOR", "DATAMIN", "DATAMAX", "LONGSTRN", "INHERIT", "EXTLEVEL"};
  for (const std::string& change : report.changes) changed.insert(change.substr(0, change.find(':')));
  std::size_t at = 0;
  for (const Card& card : before.cards()) {
    const std::string key = card.key();
    if (is_structural(key) || is_storage(key)) continue;
    std::size_t found = at;
    const bool may_change = changed.count(key) > 0;
    while (found < after.size() &&
           (may_change ? after.cards()[found].key() != key : after.cards()[found].text() != card.text())) {
      ++found;
    }
    if (found == after.size() && may_change) continue;
    BOOST_CHECK_MESSAGE(found < after.size(), "lost or moved: " << card.text());
    if (found < after.size()) at = found + 1;
  }
}

void enlarge(const Case& test, int s, const std::string& path, const Scratch& scratch, bool wcslib) {
  const Image image = read_image(path, {"", test.plane});
  ScaleOptions options{image.axis_x, image.axis_y};
  options.drop_distortion = test.drop_distortion;
  Header header = image.header;
  const ScaleReport report = scale_header(header, s, s, options);
  BOOST_TEST(image.width == test.width);
  BOOST_TEST(image.height == test.height);

  const WcsCheck check =
      compare_wcs(image.header, header, image.width, image.height, s, s, 0, 0, image.axis_x, image.axis_y);
  BOOST_TEST(check.usable == (test.has_wcs && wcslib));
  if (!test.drop_distortion) {
    BOOST_TEST(check.max_distance_px < 1e-6);  // 1e-6 px is 1e-5 of the tightest astrometric claim for such maps
  }
  if (check.usable) BOOST_TEST(check.points >= 5);

  std::vector<float> pixels(image.pixels.size() * static_cast<std::size_t>(s * s));
  const std::int64_t width = image.width * s;
  for (std::size_t k = 0; k < pixels.size(); ++k) {
    const std::int64_t x = static_cast<std::int64_t>(k) % width / s, y = static_cast<std::int64_t>(k) / width / s;
    pixels[k] = static_cast<float>(image.pixels[static_cast<std::size_t>(y * image.width + x)]);
  }
  const OutputHdu hdu{"", header, std::span<const float>(pixels), output_axes(image, width, image.height * s)};
  const std::string out = scratch / "out.fits";
  write_images(out, std::span(&hdu, 1), {.overwrite = true});

  const Image back = read_image(out);
  BOOST_TEST(back.bitpix == -32);
  BOOST_TEST(back.axes == output_axes(image, width, image.height * s), boost::test_tools::per_element());
  BOOST_TEST(back.warnings.size() == 0u);  // the checksum is right, whatever the input's was
  BOOST_TEST(back.header.has("CHECKSUM"));
  const auto mean = block_mean(back.pixels, back.width, back.height, s);
  const auto mask = invalid_mask(back.pixels);
  const bool same_mask = mask == upscale_mask(invalid_mask(image.pixels), image.width, image.height, s);
  BOOST_TEST(same_mask);
  std::size_t wrong = 0;
  std::int64_t blanks = 0;
  for (std::size_t k = 0; k < mean.size(); ++k) {
    const float truth = static_cast<float>(image.pixels[k]);
    if (std::isnan(truth)) ++blanks;
    if (!(std::isnan(truth) && std::isnan(mean[k])) && mean[k] != static_cast<double>(truth)) ++wrong;
  }
  BOOST_TEST(wrong == 0u);
  if (test.blanks > 0) BOOST_TEST(blanks == test.blanks);
  check_cards_kept(image.header, back.header, report);
  if (s == 2 && !test.drop_distortion) {
    std::string text;
    const int before = fitsverify_errors(path), after = fitsverify_errors(out, &text);
    BOOST_CHECK_MESSAGE(after <= std::max(before, after < 0 ? -1 : 0), "fitsverify: " << before << " -> " << text);
  }
  // The header written and read again still puts the sky where the input had it.
  const WcsCheck written =
      compare_wcs(image.header, back.header, image.width, image.height, s, s, 0, 0, image.axis_x, image.axis_y);
  if (!test.drop_distortion) BOOST_TEST(written.max_distance_px < 1e-6);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(real_files_enlarged)

BOOST_AUTO_TEST_CASE(every_file_is_enlarged_or_refused) {
  const std::string folder = real_files();
  if (folder.empty()) return;
  const Scratch scratch;
  std::set<std::string> seen;
  const bool wcslib = has_wcslib();
  for (const Case& test : kCases) {
    seen.insert(test.file);
    BOOST_TEST_CONTEXT(test.file << ", plane " << test.plane) {
      if (test.code != ExitCode::ok) {
        std::string message;
        const ExitCode code = exit_code_of(
            [&] {
              Image image = read_image(folder + test.file, {"", test.plane});
              scale_header(image.header, 2, 2);
            },
            &message);
        BOOST_TEST(code == test.code);
        BOOST_CHECK_MESSAGE(message.find(test.says) != std::string::npos, message);
        continue;
      }
      for (const int s : {2, 3, 4}) {
        BOOST_TEST_CONTEXT("factor " << s) { enlarge(test, s, folder + test.file, scratch, wcslib); }
      }
    }
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = std::filesystem::relative(entry.path(), folder).string();
    if (name.find(".fits") != std::string::npos) BOOST_CHECK_MESSAGE(seen.count(name) == 1, name + " is not tested");
  }
}

BOOST_AUTO_TEST_SUITE_END()
