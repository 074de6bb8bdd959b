// Every real file of the test data through `cirrus enhance --beam none`: the right map, or a refusal that says why and
// what to do.
#include <boost/test/unit_test.hpp>
#include <map>
#include <regex>

#include "fits/mask.h"
#include "fits/scale.h"
#include "fits/wcs_check.h"
#include "tests/cli/enhance_folder.h"

using namespace cirrus;
using namespace cirrus::test;

namespace {

enum class Conserves { mean, sum };

struct FileCase {
  std::string file;
  std::vector<std::string> flags;
  int refused = 0;                  ///< exit code, 0: enhanced
  std::vector<std::string> says{};  ///< words of the refusal, or of the warnings
  Conserves conserves = Conserves::mean;
  std::string hdu{};
  std::int64_t plane = 0;
  bool big = false;  ///< in the slow suite
};

// clang-format off
const FileCase kFiles[] = {
    {"PerA_Extn2MASS_F_Gal.fits", {}, 0, {"SUM is wrong"}},
    {"L1551_scuba_850mu.fits", {}, 0, {}},
    {"irsa_dust_test.fits", {}, 0, {}},
    {"SFD_dust_4096_ngp_cutout.fits", {}, 0, {}},
    {"gc_msx_e.fits", {}, 0, {}},
    {"lmc.fits", {}, 0, {}},
    {"MSX_E.fits.gz", {}, 0, {}, Conserves::mean, "", 0, true},
    {"NGC5584_PACS_100.fits.gz", {}, 0, {"SIGUNIT"}, Conserves::mean, "", 0, true},
    {"NGC5584_PACS_100.fits.gz[400:520,700:790]", {"--unit-type", "pixel"}, 0, {}, Conserves::sum},
    {"pywst_I_1.fits", {}, 0, {}, Conserves::mean, "", 0, true},
    {"awkward/gc_2mass_k.fits", {}, 0, {}, Conserves::mean, "", 0, true},
    {"awkward/scale.fits", {}, 0, {}},
    {"awkward/galactic_2d.fits", {}, 0, {}},
    {"awkward/l1448_13co.fits", {}, 65, {"53 planes", "--plane", "--all-planes"}},
    {"awkward/l1448_13co.fits", {"--plane", "30"}, 0, {}, Conserves::mean, "", 30},
    {"awkward/equatorial_3d.fits", {}, 65, {"4 planes", "--plane"}},
    {"awkward/equatorial_3d.fits", {"--plane", "2"}, 0, {}, Conserves::mean, "", 2},
    {"awkward/equatorial_3d.fits", {"--plane", "5"}, 64, {"4 plane(s)", "--plane 1 to 4"}},
    {"awkward/example_cube.fits", {}, 65, {"7 planes", "--plane"}},
    {"awkward/example_cube.fits", {"--plane", "1"}, 65, {"3 x 4", "at least 4"}},
    {"awkward/image_with_distortion_map.fits", {}, 65, {"CPDIS", "--drop-distortion"}},
    {"awkward/image_with_distortion_map.fits", {"--drop-distortion"}, 0, {}},
    {"awkward/sip-wcs.fits", {}, 0, {}, Conserves::sum},
    {"awkward/header_newlines.fits", {}, 65, {"1 x 1", "at least 4"}},
    {"awkward/validate.fits", {}, 65, {"no 2-D image", "no data", "--hdu"}},
    {"awkward/k4m_tpv_ccd2.fits", {}, 0, {"counts/s"}, Conserves::mean, "1"},
    {"awkward/o4sp040b0_raw.fits", {}, 0, {}, Conserves::sum, "1"},
    {"awkward/o4sp040b0_raw.fits", {"--hdu", "SCI"}, 0, {}, Conserves::sum, "SCI"},
    {"awkward/o4sp040b0_raw.fits", {"--hdu", "3"}, 65, {"not a 2-D image", "--hdu"}},
    {"awkward/o4sp040b0_raw.fits", {"--hdu", "SCIENCE"}, 64, {"no HDU 'SCIENCE'", "SCI"}},
    {"awkward/blank.fits", {}, 65, {"1 x 1", "at least 4"}},
    {"awkward/m13.fits", {}, 0, {}},
    {"awkward/m13_rice.fits", {}, 0, {}},
    {"awkward/m13_hcomp.fits", {}, 0, {}},
    {"awkward/compressed_with_nan.fits", {}, 0, {}},
    {"awkward/compressed_float_bzero.fits", {}, 65, {"no 2-D image"}},
    {"awkward/test_rice_dither2_seed42.fits.fz", {}, 0, {}},
    {"awkward/healpix_wmap_V_nside32.fits", {}, 65, {"HEALPix", "project"}},
};
// clang-format on

double median_of(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// 1.4826 MAD of the finite pixels; the standard deviation where that is nothing.
double robust_sigma(const std::vector<double>& pixels) {
  std::vector<double> finite;
  for (const double v : pixels)
    if (std::isfinite(v)) finite.push_back(v);
  const double m = median_of(finite);
  std::vector<double> away;
  double mean = 0, square = 0;
  for (const double v : finite) away.push_back(std::abs(v - m)), mean += v / static_cast<double>(finite.size());
  for (const double v : finite) square += (v - mean) * (v - mean) / static_cast<double>(finite.size());
  return std::max(1.4826 * median_of(away), 1e-3 * std::sqrt(square));
}

/// Keywords that the new pixel grid changes, and those that belong to the file.
bool may_change(const std::string& key) {
  static const std::regex changed(
      "(CRPIX|CDELT|CROTA)[0-9]+[A-Z]?|(CD|PC)0*[0-9]+_0*[0-9]+[A-Z]?|PC0[0-9]{2}0[0-9]{2}|LT[MV][0-9_]+|[AB]P?_([0-9]_"
      "[0-9]|DMAX)|(X|SEC|P)?PIX(SCALE?|SCAL[12]|SIZE)[12]?|"
      "PIXAR_(SR|A2)|PPBEAM|LAM_SCAL|CNPIX[12]|[XY]PIXELSZ|DATA(MIN|MAX|SEC)|TRIMSEC|BIASSEC|CCDSEC|LBOUND[0-9]|DATE|"
      "CREATOR|INHERIT|EXTLEVEL|CPDIS[0-9]|CQDIS[0-9]|DP[0-9].*|"
      "CPERR[0-9]|D2IM.*|AXISCORR|LONGSTRN|EXTNAME|NEXTEND");
  return fits::is_structural(key) || fits::is_storage(key) || std::regex_match(key, changed);
}

int fitsverify_errors(const std::string& path) {
  const std::string command = "fitsverify -e -q '" + path + "' > /dev/null 2>&1";
  return std::system(command.c_str());
}
bool have_fitsverify() { return std::system("command -v fitsverify > /dev/null 2>&1") == 0; }

void check_map(const FileCase& c, std::int64_t factor, const std::string& input_path, const std::string& output_path) {
  const fits::Image in = fits::read_image(input_path, {.hdu = c.hdu, .plane = c.plane});
  const fits::Image out = fits::read_image(output_path);
  const int s = static_cast<int>(factor);
  BOOST_TEST_REQUIRE(out.width == in.width * factor);
  BOOST_TEST_REQUIRE(out.height == in.height * factor);
  BOOST_TEST(out.bitpix == -32);
  BOOST_TEST(out.axes.size() == in.axes.size(), "length-1 axes are not restored");

  // Flux, in float64 sums, and missing pixels.
  const double sigma = robust_sigma(in.pixels);
  const auto blocks = c.conserves == Conserves::sum ? fits::block_sum(out.pixels, out.width, out.height, s)
                                                    : fits::block_mean(out.pixels, out.width, out.height, s);
  double worst = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (std::isfinite(in.pixels[i]))
      worst = std::max(worst, std::abs(blocks[i] - in.pixels[i]) / std::max(std::abs(in.pixels[i]), sigma));
  BOOST_TEST(worst <= 1e-5, "block " << (c.conserves == Conserves::sum ? "sums" : "means") << " differ by " << worst);
  const auto mask = fits::upscale_mask(fits::invalid_mask(in.pixels), in.width, in.height, s);
  BOOST_TEST((fits::invalid_mask(out.pixels) == mask), "missing pixels are not where the input's are");
  const fits::Image mask_hdu = fits::read_image(output_path, {.hdu = "MASK"});
  BOOST_TEST(mask_hdu.bitpix == 8);
  BOOST_TEST(std::equal(mask.begin(), mask.end(), mask_hdu.pixels.begin(),
                        [](std::uint8_t a, double b) { return static_cast<double>(a) == b; }));
  const fits::Image residual = fits::read_image(output_path, {.hdu = "RESIDUAL"});
  BOOST_TEST(residual.width == in.width);
  double peak = sigma, largest = 0;
  for (const double v : in.pixels)
    if (v > peak) peak = v;  // NaN is not
  for (const double r : residual.pixels)
    if (std::abs(r) > largest) largest = std::abs(r);
  BOOST_TEST(largest <= 1e-5 * peak, "RESIDUAL holds " << largest);

  // Sky coordinates of corners, edges and centre.
  const double f = static_cast<double>(factor);
  fits::Header described = in.header;
  if (std::find(c.flags.begin(), c.flags.end(), "--drop-distortion") != c.flags.end())
    fits::scale_header(described, 1, 1, {.drop_distortion = true});
  const fits::WcsCheck wcs =
      fits::compare_wcs(described, out.header, in.width, in.height, f, f, 0, 0, in.axis_x, in.axis_y);
  BOOST_TEST(wcs.max_distance_px < 1e-6, "sky positions differ by " << wcs.max_distance_px << " output pixels");
  BOOST_TEST(out.header.get<bool>("SRWCSOK").value() == wcs.usable);
  BOOST_TEST_MESSAGE(c.file << " x" << factor << ": flux error " << worst << ", corners " << wcs.max_distance_px
                            << " px (" << wcs.points << " points)");

  // Provenance, and every card that the pixel grid does not change.
  BOOST_TEST(out.header.get<std::int64_t>("SRSCALE").value() == factor);
  BOOST_TEST(out.header.get<std::string>("SRMODE").value() == "block");
  BOOST_TEST(out.header.get<std::string>("SRSAMPLR").value() == "mean");
  BOOST_TEST(out.header.get<double>("SRNORMA").value() > 0);
  BOOST_TEST(out.header.get<double>("SRFLUX").value() <= 1e-5);
  for (const char* key :
       {"SRVERS", "SRMODEL", "SRSHA", "SRSEED", "SRNMEM", "SRSTEPS", "SRNORMM", "SRTILE", "SROVERL", "SROOD"})
    BOOST_TEST(out.header.has(key), key);
  std::multimap<std::string, int> kept;
  for (const fits::Card& card : out.header.cards()) kept.emplace(card.text(), 0);
  for (const fits::Card& card : in.header.cards())
    if (!may_change(card.key())) BOOST_TEST(kept.contains(card.text()), "lost: " << card.text());
}

void run_files(bool big) {
  const std::string data = test_data("fits/");
  if (data.empty()) return;
  const bool verify = have_fitsverify();
  EnhanceFolder folder;
  for (const FileCase& c : kFiles) {
    if (c.big != big) continue;
    for (const std::int64_t factor : {2, 4}) {
      if (factor == 4 && c.refused != 0) continue;
      const std::string input = data + c.file;
      std::vector<std::string> words{input,       "-o",   "out.fits", "--overwrite", "--beam", "none",
                                     "--sampler", "mean", "--no-png", "--dtype",     "fp32"};
      for (const auto& more : {folder.shipped_model(factor), c.flags})
        words.insert(words.end(), more.begin(), more.end());
      std::filesystem::remove(folder.at("out.fits"));
      const Outcome outcome = folder.enhance(words, true);
      const std::string what = c.file + " x" + std::to_string(factor) + (c.flags.empty() ? "" : " " + c.flags[0]);
      BOOST_TEST_CONTEXT(what) {
        BOOST_TEST(outcome.code == c.refused, "ended with " << outcome.code << ": " << outcome.err);
        for (const std::string& word : c.says)
          BOOST_TEST(contains(outcome.err, word), outcome.err << " should say " << word);
        if (c.refused != 0) {
          BOOST_TEST(contains(outcome.err, std::filesystem::path(c.file).filename().string()), "the file is not named");
          BOOST_TEST(folder.files() == 1u, "something was left behind");
          continue;
        }
        if (outcome.code != 0) continue;
        check_map(c, factor, input, folder.at("out.fits").string());
        if (verify && (c.file.find('[') != std::string::npos || fitsverify_errors(input) == 0))
          BOOST_TEST(fitsverify_errors(folder.at("out.fits").string()) == 0, "fitsverify finds errors");
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(enhance_files)

BOOST_AUTO_TEST_CASE(every_file_gives_the_right_map_or_a_refusal_that_helps) { run_files(false); }

BOOST_AUTO_TEST_CASE(perseus_lands_where_arithmetic_puts_it) {
  const std::string map = test_data("fits/PerA_Extn2MASS_F_Gal.fits");
  if (map.empty()) return;
  EnhanceFolder folder;
  std::vector<std::string> words{map,         "-o",   "x4.fits",  "--beam",  "none",
                                 "--sampler", "mean", "--no-png", "--dtype", "fp32"};
  BOOST_TEST_REQUIRE(folder.enhance(words, true).code == 0);
  const fits::Image in = fits::read_image(map), out = folder.image("x4.fits");
  BOOST_TEST(out.width == 868);
  BOOST_TEST(out.height == 1252);
  // CRPIX' = 4 (CRPIX - 1/2) + 1/2; the columns of CD divided by 4.
  BOOST_TEST(out.header.get<double>("CRPIX1").value() == -205.5);
  BOOST_TEST(out.header.get<double>("CRPIX2").value() == 4 * (in.header.get<double>("CRPIX2").value() - 0.5) + 0.5);
  for (const char* key : {"CD1_1", "CD1_2", "CD2_1", "CD2_2"})
    if (in.header.has(key))
      BOOST_TEST(out.header.get<double>(key).value() == in.header.get<double>(key).value() / 4, key);
  BOOST_TEST(!out.header.has("CDELT1"));
  BOOST_TEST(!out.header.has("PC1_1"));
  for (const char* key : {"CRVAL1", "CRVAL2", "LONPOLE"})
    BOOST_TEST(out.header.get<double>(key).value() == in.header.get<double>(key).value(), key);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(slow_enhance_files)

BOOST_AUTO_TEST_CASE(every_big_file_gives_the_right_map) { run_files(true); }

BOOST_AUTO_TEST_SUITE_END()
