// cirrus-data as users run it: what info says, what synth and degrade write, what quicklook draws.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "fits/image.h"
#include "fits/writer.h"
#include "tests/cli/subprocess.h"

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct Folder {
  ScratchFolder scratch;
  RunSettings settings{.folder = scratch.path()};

  Outcome data(const std::vector<std::string>& words) { return run("cirrus-data", words, settings); }
  /// Runs and requires success.
  Outcome done(const std::vector<std::string>& words) {
    Outcome outcome = data(words);
    BOOST_TEST_REQUIRE(outcome.code == 0, outcome.err);
    return outcome;
  }
  std::string at(const std::string& name) { return (scratch / name).string(); }
  fits::Image image(const std::string& name) { return fits::read_image(at(name)); }

  /// A map of 6" pixels whose value at (x, y), counted from 0, is value(x, y).
  template <class Value>
  void make_map(const std::string& name, std::int64_t width, std::int64_t height, const std::string& unit,
                Value value) {
    std::vector<double> pixels;
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) pixels.push_back(value(x, y));
    }
    fits::Header header = fits::Header::from_lines(
        "CTYPE1  = 'RA---TAN'\nCTYPE2  = 'DEC--TAN'\nCRVAL1  = 83.5\nCRVAL2  = -5.25\nCRPIX1  = 10.0\nCRPIX2  = 7.5\n"
        "CDELT1  = -0.00166666666666667\nCDELT2  = 0.00166666666666667\n");
    if (!unit.empty()) header.set("BUNIT", unit);
    const fits::OutputHdu hdu{"", header, std::span<const double>(pixels), {width, height}};
    fits::write_images(at(name), {&hdu, 1}, {.overwrite = true});
  }
};

double sum_of(const fits::Image& image) { return std::accumulate(image.pixels.begin(), image.pixels.end(), 0.0); }

}  // namespace

BOOST_AUTO_TEST_SUITE(data_info)

BOOST_FIXTURE_TEST_CASE(a_map_is_described_as_astropy_and_numpy_see_it, Folder) {
  const std::string map = test_data("fits/MSX_E.fits.gz");
  if (map.empty()) return;
  const Outcome outcome = done({"info", map, "--json"});
  const json file = json::parse(outcome.out)["files"][0];
  BOOST_TEST(file["hdus"][0]["type"] == "PrimaryHDU");
  BOOST_TEST(file["hdus"][0]["axes"] == json({599, 599}));
  const json image = file["image"];
  BOOST_TEST(image["unit"] == "W/m^2-sr");
  BOOST_TEST(image["unit_class"] == "brightness");
  BOOST_TEST(std::abs(image["pixel_arcsec"].get<double>() - 6) < 1e-3);
  BOOST_TEST(image["beam"].is_null());
  BOOST_TEST(image["nan_share"] == 0.0);
  // numpy 1.24 on astropy's array.
  const json statistics = image["statistics"];
  const auto near = [&](const char* name, double value) {
    BOOST_TEST(std::abs(statistics[name].get<double>() / value - 1) < 1e-6, name << " is " << statistics[name]);
  };
  near("min", -5.196312486e-06), near("max", 3.901190823e-03), near("mean", 1.094245432e-05),
      near("std", 4.600811373e-05);
  near("median", 3.960076810e-06), near("mad_sigma", 3.002737221e-06);
}

BOOST_FIXTURE_TEST_CASE(missing_values_and_beams_are_told, Folder) {
  make_map("gaps.fits", 10, 10, "mJy/beam", [](auto x, auto y) { return y == 3 ? NAN : static_cast<double>(x); });
  const json image = json::parse(done({"info", "gaps.fits", "--json"}).out)["files"][0]["image"];
  BOOST_TEST(image["nan_share"].get<double>() == 0.1, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(image["unit_class"] == "beam");
  BOOST_TEST(image["statistics"]["values"] == 90);
  BOOST_TEST(image["statistics"]["median"] == 4.5);
  const Outcome text = done({"info", "gaps.fits"});
  BOOST_TEST(text.out.starts_with("Filename: gaps.fits\nNo."));
  BOOST_TEST(contains(text.out, "RA---TAN, DEC--TAN"));
  BOOST_TEST(contains(text.out, "NaN         10 %"));
}

BOOST_FIXTURE_TEST_CASE(maps_without_values_and_files_without_maps_are_no_errors, Folder) {
  make_map("empty.fits", 4, 4, "K", [](auto, auto) { return NAN; });
  const json image = json::parse(done({"info", "empty.fits", "--json"}).out)["files"][0]["image"];
  BOOST_TEST(image["nan_share"] == 1.0);
  BOOST_TEST(image["statistics"]["mean"].is_null());
  const std::string healpix = test_data("fits/awkward/healpix_wmap_V_nside32.fits");
  if (!healpix.empty()) BOOST_TEST(contains(done({"info", healpix}).out, "HEALPix"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(data_synth)

BOOST_FIXTURE_TEST_CASE(a_map_depends_on_seed_and_index_alone, Folder) {
  settings.environment["SOURCE_DATE_EPOCH"] = "1700000000";
  const std::vector<std::string> words = {"synth",       "--size", "64",       "--number", "2",
                                          "--overwrite", "-o",     "map.fits", "--threads"};
  const auto with_threads = [&](const char* threads, const std::string& name) {
    std::vector<std::string> all = words;
    all.push_back(threads);
    done(all);
    return contents(scratch / name);
  };
  // The command is in HISTORY: runs are compared pixel by pixel where it differs, byte by byte where it does not.
  const std::string first = with_threads("1", "map_1.fits");
  const fits::Image one = image("map_1.fits"), two = image("map_2.fits");
  BOOST_TEST(first == with_threads("1", "map_1.fits"));
  with_threads("2", "map_1.fits");
  BOOST_TEST((image("map_1.fits").pixels == one.pixels));
  BOOST_TEST((image("map_2.fits").pixels == two.pixels));
  BOOST_TEST((one.pixels != two.pixels));
  done({"synth", "--size", "64", "-o", "other.fits", "--seed", "1"});
  BOOST_TEST((image("other.fits").pixels != one.pixels));
}

BOOST_FIXTURE_TEST_CASE(the_header_tells_what_was_asked_for, Folder) {
  done({"synth", "-o", "map.fits", "--size", "96x32", "--family", "lognormal", "--pixel", "10arcsec", "--beam",
        "0.5arcmin", "--seed", "7"});
  const fits::Image map = image("map.fits");
  BOOST_TEST(map.width == 96);
  BOOST_TEST(map.height == 32);
  BOOST_TEST(map.bitpix == -32);
  BOOST_TEST(map.header.get<double>("CDELT2").value() == 10.0 / 3600);
  BOOST_TEST(map.header.get<double>("BMAJ").value() == 30.0 / 3600, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(map.header.get<std::string>("BUNIT").value() == "MJy/sr");
  BOOST_TEST(map.header.get<std::string>("SYFAMILY").value() == "lognormal");
  BOOST_TEST(map.header.get<std::int64_t>("SYSEED").value() == 7);
  BOOST_TEST(*std::min_element(map.pixels.begin(), map.pixels.end()) > 0.0);
}

BOOST_FIXTURE_TEST_CASE(an_interrupt_ends_with_130_and_whole_files, Folder) {
  settings.signal_after_first_output = SIGINT;
  const Outcome outcome = data({"synth", "-o", "map.fits", "--size", "64", "--number", "100000"});
  BOOST_TEST(outcome.code == 130);
  BOOST_TEST(contains(outcome.err, "cirrus-data synth: error: interrupted"));
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(scratch.path())) {
    BOOST_TEST(entry.path().filename().string().starts_with("map_"));
    BOOST_TEST(fits::read_image(entry.path().string()).warnings.empty());
    ++files;
  }
  BOOST_TEST((files >= 1 && files < 100000));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(data_degrade)

BOOST_FIXTURE_TEST_CASE(the_msx_pair_is_reproduced_and_its_header_corrected, Folder) {
  // gc_msx_e.fits is the 4x4 block mean of MSX_E.fits (first 596 of 599 pixels); its own CRPIX is off by half a pixel.
  const std::string high = test_data("fits/MSX_E.fits.gz"), low = test_data("fits/gc_msx_e.fits");
  if (high.empty()) return;
  const Outcome outcome = done({"degrade", high, "--factor", "4", "-o", "low.fits", "--double"});
  BOOST_TEST(contains(outcome.err, "3 columns and 3 rows"));
  const fits::Image ours = image("low.fits"), theirs = fits::read_image(low);
  BOOST_TEST_REQUIRE(ours.pixels.size() == theirs.pixels.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < ours.pixels.size(); ++i) {
    worst = std::max(worst, std::abs(ours.pixels[i] - theirs.pixels[i]));
    largest = std::max(largest, std::abs(theirs.pixels[i]));
  }
  BOOST_TEST(worst <= 1e-6 * largest);  // theirs may be single precision
  BOOST_TEST(ours.header.get<double>("CRPIX1").value() == 75.282, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(ours.header.get<double>("CRPIX2").value() == 75.2235, boost::test_tools::tolerance(1e-9));
}

BOOST_FIXTURE_TEST_CASE(brightness_is_averaged_and_flux_is_summed, Folder) {
  const auto value = [](auto x, auto y) { return static_cast<double>(x + 20 * y); };
  make_map("sb.fits", 20, 12, "MJy/sr", value);
  make_map("flux.fits", 20, 12, "Jy/pixel", value);
  done({"degrade", "sb.fits", "-o", "sb4.fits"});
  done({"degrade", "flux.fits", "-o", "flux4.fits"});
  const fits::Image sb = image("sb4.fits"), flux = image("flux4.fits");
  BOOST_TEST(sb.width == 5);
  BOOST_TEST(sb.height == 3);
  BOOST_TEST(sb.pixels[0] == 31.5);  // mean of x + 20 y over 0..3
  BOOST_TEST(sum_of(flux) == 240 * 119.5, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(sum_of(sb) * 16 == 240 * 119.5, boost::test_tools::tolerance(1e-6));
  done({"degrade", "sb.fits", "-o", "told.fits", "--unit-type", "pixel"});
  BOOST_TEST(image("told.fits").pixels[0] == 16 * 31.5);
}

BOOST_FIXTURE_TEST_CASE(a_beam_is_written_and_per_beam_values_follow_it, Folder) {
  make_map("k.fits", 64, 64, "K", [](auto, auto) { return 2.0; });
  make_map("jy.fits", 64, 64, "Jy/beam", [](auto, auto) { return 2.0; });
  for (const char* name : {"k.fits", "jy.fits"}) {
    fits::Image map = image(name);
    map.header.set("BMAJ", 12.0 / 3600);
    map.header.set("BMIN", 12.0 / 3600);
    const fits::OutputHdu hdu{"", map.header, std::span<const double>(map.pixels), {64, 64}};
    fits::write_images(at(name), {&hdu, 1}, {.overwrite = true});
  }
  done({"degrade", "k.fits", "-o", "k4.fits", "--beam-out", "36arcsec"});
  done({"degrade", "jy.fits", "-o", "jy4.fits", "--beam-out", "36arcsec"});
  BOOST_TEST(image("k4.fits").header.get<double>("BMAJ").value() == 0.01, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(image("k4.fits").pixels[100] == 2.0, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(image("jy4.fits").pixels[100] == 18.0, boost::test_tools::tolerance(1e-6));  // nine times the beam area
  const Outcome sharper = data({"degrade", "k.fits", "-o", "no.fits", "--beam-out", "6arcsec"});
  BOOST_TEST(sharper.code == 65);
  for (const char* part : {"k.fits", "6arcsec", "12arcsec", "--beam-in"})
    BOOST_TEST(contains(sharper.err, part), sharper.err);
  BOOST_TEST(!fs::exists(scratch / "no.fits"));
}

BOOST_FIXTURE_TEST_CASE(a_point_source_becomes_the_difference_beam, Folder) {
  make_map("point.fits", 81, 81, "Jy/pixel", [](auto x, auto y) { return x == 40 && y == 40 ? 1.0 : 0.0; });
  done(
      {"degrade", "point.fits", "-o", "wide.fits", "--factor", "1", "--beam-in", "30arcsec", "--beam-out", "50arcsec"});
  const fits::Image wide = image("wide.fits");
  double square = 0;
  for (std::size_t i = 0; i < wide.pixels.size(); ++i) {
    const double x = static_cast<double>(i % 81) - 40;
    square += wide.pixels[i] * x * x;
  }
  BOOST_TEST(sum_of(wide) == 1.0, boost::test_tools::tolerance(1e-5));
  // FWHM sqrt(50^2 - 30^2) = 40", 6" pixels; a Gaussian sampled at pixel centres and cut at 6 sigma.
  BOOST_TEST(std::sqrt(square) * 2.3548200450309493 * 6 == 40.0, boost::test_tools::tolerance(1e-3));
}

BOOST_FIXTURE_TEST_CASE(noise_and_stripes_have_the_rms_asked_for_and_are_recorded, Folder) {
  make_map("zero.fits", 256, 256, "K", [](auto, auto) { return 0.0; });
  done({"degrade", "zero.fits", "-o", "noisy.fits", "--factor", "2", "--noise", "0.5", "--seed", "3"});
  const fits::Image noisy = image("noisy.fits");
  double square = 0;
  for (const double v : noisy.pixels) square += v * v;
  // 16384 pixels: the rms is known to 1/sqrt(2 n) = 0.55 %; five times that.
  BOOST_TEST(std::sqrt(square / static_cast<double>(noisy.pixels.size())) == 0.5, boost::test_tools::tolerance(0.028));
  BOOST_TEST(noisy.header.get<double>("NOISE").value() == 0.5);
  BOOST_TEST(noisy.header.get<std::int64_t>("NSEED").value() == 3);
  // A map's own noise goes on: the mean of 2 x 2 pixels has half of it, and more is added in quadrature.
  done({"degrade", "noisy.fits", "-o", "again.fits", "--factor", "2"});
  BOOST_TEST(image("again.fits").header.get<double>("NOISE").value() == 0.25, boost::test_tools::tolerance(1e-9));
  done({"degrade", "noisy.fits", "-o", "more.fits", "--factor", "2", "--noise", "0.3", "--unit-type", "pixel"});
  BOOST_TEST(image("more.fits").header.get<double>("NOISE").value() == std::hypot(1.0, 0.3),
             boost::test_tools::tolerance(1e-9));
  done({"degrade", "zero.fits", "-o", "striped.fits", "--factor", "2", "--stripes", "0.5"});
  BOOST_TEST(image("striped.fits").header.get<double>("STRIPES").value() == 0.5);
  BOOST_TEST(!image("striped.fits").header.has("NOISE"));
}

BOOST_FIXTURE_TEST_CASE(missing_pixels_stay_missing_and_spread_no_further, Folder) {
  make_map("nothing.fits", 16, 16, "K", [](auto, auto) { return NAN; });
  BOOST_TEST(data({"degrade", "nothing.fits"}).code == 65);
  make_map("gaps.fits", 16, 16, "K", [](auto x, auto y) {
    return x < 4 && y < 4 ? NAN : x == 5 && y == 5 ? NAN : 3.0;
  });
  done({"degrade", "gaps.fits", "-o", "low.fits"});
  const fits::Image low = image("low.fits");
  BOOST_TEST(std::isnan(low.pixels[0]));
  for (std::size_t i = 1; i < low.pixels.size(); ++i) BOOST_TEST(low.pixels[i] == 3.0);
}

BOOST_FIXTURE_TEST_CASE(planes_of_a_cube_are_chosen_or_all_done, Folder) {
  const std::string cube = test_data("fits/awkward/example_cube.fits");
  if (cube.empty()) return;
  BOOST_TEST(data({"degrade", cube, "--factor", "1", "-o", "no.fits"}).code == 65);
  done({"degrade", cube, "--factor", "1", "--beam-out", "1.5arcsec", "--all-planes", "-o", "all.fits"});
  done({"degrade", cube, "--factor", "1", "--beam-out", "1.5arcsec", "--plane", "3", "-o", "one.fits"});
  BOOST_TEST(fits::count_planes(at("all.fits")) == 7);
  const fits::Image third = fits::read_image(at("all.fits"), {.hdu = "", .plane = 3}), one = image("one.fits");
  BOOST_TEST(third.width == 3);
  BOOST_TEST(third.height == 4);
  BOOST_TEST((third.pixels == one.pixels));
  BOOST_TEST(data({"degrade", cube, "--plane", "3", "--all-planes"}).code == 64);
}

BOOST_FIXTURE_TEST_CASE(history_tells_the_command_without_folders, Folder) {
  make_map("map.fits", 8, 8, "K", [](auto, auto) { return 1.0; });
  done({"degrade", at("map.fits"), "--factor", "2", "-o", at("low.fits")});
  std::string history;
  for (const std::string& line : image("low.fits").header.commentary("HISTORY")) history += line;
  BOOST_TEST(contains(history, "cirrus-data degrade map.fits --factor 2 -o low.fits"));
  BOOST_TEST(!contains(history, scratch.path().string()));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(data_quicklook)

BOOST_FIXTURE_TEST_CASE(pictures_have_the_size_and_depth_asked_for, Folder) {
  make_map("map.fits", 40, 20, "MJy/sr", [](auto x, auto) { return static_cast<double>(x); });
  const auto number_at = [](const std::string& png, std::size_t offset) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(png[offset + i]);
    return value;
  };
  done({"quicklook", "map.fits", "--side", "200"});
  const std::string png = contents(scratch / "map.png");
  BOOST_TEST_REQUIRE(png.starts_with("\x89PNG\r\n\x1a\n"));
  BOOST_TEST(number_at(png, 16) == 220u);  // 10 pixels of margin on either side
  BOOST_TEST(static_cast<int>(png[24]) == 8);
  done({"quicklook", "map.fits", "map.fits", "--side", "200", "--png16", "--cmap", "viridis", "--stretch", "log", "-o",
        "two.png"});
  const std::string two = contents(scratch / "two.png");
  BOOST_TEST(number_at(two, 16) == 430u);
  BOOST_TEST(static_cast<int>(two[24]) == 16);
}

BOOST_FIXTURE_TEST_CASE(a_map_without_values_is_drawn_with_a_warning, Folder) {
  make_map("empty.fits", 20, 20, "K", [](auto, auto) { return NAN; });
  const Outcome outcome = done({"quicklook", "empty.fits"});
  BOOST_TEST(contains(outcome.err, "warning: empty.fits: no pixel has a value"));
  BOOST_TEST(fs::exists(scratch / "empty.png"));
  BOOST_TEST(data({"quicklook", "empty.fits", "--overwrite", "--strict"}).code == 65);
}

BOOST_AUTO_TEST_SUITE_END()
