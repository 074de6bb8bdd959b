// What `cirrus enhance` writes: extensions, cards, cubes, names.
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "fits/mask.h"
#include "tests/cli/enhance_folder.h"

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct Folder : EnhanceFolder {
  /// By the model that ships, sampled well: others may be too far from the data to be brought to them.
  std::vector<std::string> shipped(std::vector<std::string> words) const {
    words.insert(words.end(), {"--steps", "16"});
    for (const std::string& word : shipped_model(4)) words.push_back(word);
    return words;
  }
};

std::vector<std::string> hdu_names(const std::string& path) {
  std::vector<std::string> names;
  for (const fits::HduInfo& h : fits::list_hdus(path)) names.push_back(h.name);
  return names;
}

double sum_of(const std::vector<double>& pixels) { return std::accumulate(pixels.begin(), pixels.end(), 0.0); }

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (std::isfinite(a[i]) || std::isfinite(b[i]))
      worst = std::isfinite(a[i]) && std::isfinite(b[i]) ? std::max(worst, std::abs(a[i] - b[i])) : INFINITY;
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(enhance_extensions)

BOOST_FIXTURE_TEST_CASE(a_block_map_has_every_extension_with_its_meaning, Folder) {
  done({"map.fits", "--beam", "none", "--save-members", "--members", "3"});
  const std::string out = at("map_x4.fits").string();
  BOOST_TEST(
      hdu_names(out) == (std::vector<std::string>{"PRIMARY", "STD", "SAMPLE", "MEMBERS", "RESIDUAL", "PRIOR", "MASK"}),
      boost::test_tools::per_element());
  const fits::Image mean = image("map_x4.fits"), std = image("map_x4.fits", "STD"),
                    sample = image("map_x4.fits", "SAMPLE"), prior = image("map_x4.fits", "PRIOR");
  std::vector<std::vector<double>> members;
  for (std::int64_t p = 1; p <= 3; ++p) members.push_back(image("map_x4.fits", "MEMBERS", p).pixels);
  BOOST_TEST(image("map_x4.fits", "MEMBERS", 1).planes == 3);
  BOOST_TEST((members[0] == sample.pixels));
  for (std::size_t i = 0; i < std.pixels.size(); ++i) {
    const double m = (members[0][i] + members[1][i] + members[2][i]) / 3;
    const double v =
        (std::pow(members[0][i] - m, 2) + std::pow(members[1][i] - m, 2) + std::pow(members[2][i] - m, 2)) / 2;
    BOOST_TEST_REQUIRE(std::abs(std.pixels[i] - std::sqrt(v)) < 1e-5);  // float32 members of order 10
    BOOST_TEST_REQUIRE((prior.pixels[i] >= 0 && prior.pixels[i] <= 1));
  }
  const fits::Image in = image("map.fits");
  for (const auto& map : {mean.pixels, members[0], members[1], members[2]})
    BOOST_TEST(largest_difference(fits::block_mean(map, 48, 40, 4), in.pixels) < 5e-6);
  BOOST_TEST(std.header.get<std::string>("BUNIT").value() == "MJy/sr");
  BOOST_TEST(!prior.header.has("BUNIT"));
  BOOST_TEST(std.header.get<double>("CRPIX1").value() == mean.header.get<double>("CRPIX1").value());
  const fits::Image residual = image("map_x4.fits", "RESIDUAL");
  BOOST_TEST(residual.width == 12);
  BOOST_TEST(residual.header.get<double>("CRPIX1").value() == 4.25);
  BOOST_TEST(bytes("map_x4.png").starts_with("\x89PNG"));
}

BOOST_FIXTURE_TEST_CASE(a_beam_map_agrees_within_its_noise_and_says_so, Folder) {
  make_map("seen.fits", 32, 32, "BUNIT   = 'MJy/sr'\nBMAJ    = 0.00666\nBMIN    = 0.00666\nBPA     = 0.0\n");
  const json j = as_json(shipped({"seen.fits", "--noise", "0.05", "--members", "4"}));
  BOOST_TEST(j["mode"] == "beam");
  BOOST_TEST(j["beam_source"] == "header");
  BOOST_TEST(j["chi2"].get<double>() < 1.3);
  const fits::Image out = image("seen_x4.fits"), residual = image("seen_x4.fits", "RESIDUAL");
  BOOST_TEST(out.header.get<std::string>("SRMODE").value() == "beam");
  BOOST_TEST(out.header.get<double>("SRNOISE").value() == 0.05);
  BOOST_TEST(out.header.get<double>("SRCHI2").value() == j["chi2"].get<double>());
  BOOST_TEST(out.header.get<double>("SRBMAJ").value() == 2.3 * 2.5 / 3600, boost::test_tools::tolerance(1e-9));
  for (const char* hdu : {"", "STD", "SAMPLE"}) {  // brightness: BMAJ says nothing but the resolution
    const fits::Header h = image("seen_x4.fits", hdu).header;
    BOOST_TEST(h.get<double>("BMAJ").value() == h.get<double>("SRBMAJ").value());
    BOOST_TEST(h.get<double>("OBMAJ").value() == 0.00666);
  }
  BOOST_TEST(residual.header.get<double>("BMAJ").value() == 0.00666);
  double square = 0;
  for (const double r : residual.pixels) square += r * r / 1024;
  BOOST_TEST(square < 0.07 * 0.07);
}

BOOST_FIXTURE_TEST_CASE(what_reads_an_output_finds_its_resolution_and_no_noise_of_the_input, Folder) {
  for (const std::string unit : {"MJy/sr", "Jy/beam"}) {
    make_map("seen.fits", 24, 24, "BUNIT   = '" + unit + "'\nBMAJ    = 0.00666\nBMIN    = 0.00666\nNOISE   = 0.05\n");
    done({"seen.fits", "--no-png", "--overwrite"});
    const fits::Header out = image("seen_x4.fits").header;
    BOOST_TEST(!out.has("NOISE"));
    BOOST_TEST(out.get<double>("ONOISE").value() == 0.05);
    const auto beam = [&](const std::string& name) {
      return json::parse(run("cirrus-data", {"info", name, "--json"}, settings).out)["files"][0]["image"]["beam"];
    };
    BOOST_TEST(beam("seen_x4.fits")["major_arcsec"].get<double>() == 5.75, boost::test_tools::tolerance(1e-9));
    if (unit == "Jy/beam") BOOST_TEST(out.get<double>("BMAJ").value() == 0.00666);  // the unit's beam
    const json again = as_json({"seen_x4.fits", "--dry-run"});
    BOOST_TEST(again["beam_in_arcsec"].get<double>() == 5.75, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(contains(again["warnings"].dump(), "itself super-resolved"));
    // Back to the input's beam: the values of the input, in its unit.
    const Outcome back =
        run("cirrus-data", {"degrade", "seen_x4.fits", "-o", "back.fits", "--beam-out", "0.00666deg", "--overwrite"},
            settings);
    BOOST_TEST_REQUIRE(back.code == 0, back.err);
    const fits::Image low = image("back.fits"), in = image("seen.fits");
    BOOST_TEST(!low.header.has("SRBMAJ"));
    BOOST_TEST(low.header.get<double>("BMAJ").value() == 0.00666, boost::test_tools::tolerance(1e-9));
    double difference = 0;
    for (std::int64_t y = 6; y < 18; ++y)
      for (std::int64_t x = 6; x < 18; ++x) {
        const auto i = static_cast<std::size_t>(24 * y + x);
        difference = std::max(difference, std::abs(low.pixels[i] - in.pixels[i]));
      }
    BOOST_TEST(difference < 0.3);  // values of 1 to 10, noise 0.05
  }
}

BOOST_FIXTURE_TEST_CASE(the_beam_that_was_used_is_in_the_header_whoever_told_it, Folder) {
  make_map("bare.fits", 24, 24);
  done({"bare.fits", "--beam", "24", "--noise", "0.1", "--no-png"});
  const fits::Header told = image("bare_x4.fits").header;
  BOOST_TEST(told.get<double>("OBMAJ").value() == 24.0 / 3600, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(told.get<double>("BMAJ").value() == told.get<double>("SRBMAJ").value());
  make_map("jy.fits", 24, 24, "BUNIT   = 'Jy/beam'\n");  // the beam that is told is the unit's
  done({"jy.fits", "--beam", "24", "--noise", "0.1", "--no-png"});
  BOOST_TEST(image("jy_x4.fits").header.get<double>("BMAJ").value() == 24.0 / 3600, boost::test_tools::tolerance(1e-9));
  // Block mode makes nothing sharper than a beam that was there before the pixels.
  make_map("blurred.fits", 24, 24, "BUNIT   = 'K'\nBMAJ    = 0.0075\nBMIN    = 0.0075\n");
  done({"blurred.fits", "--beam", "none", "--no-png"});
  const fits::Header block = image("blurred_x4.fits").header;
  BOOST_TEST(block.get<double>("SRBMAJ").value() == 0.0075, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(block.get<double>("BMAJ").value() == 0.0075);
  const Outcome low = run("cirrus-data", {"degrade", "blurred_x4.fits", "-o", "low.fits"}, settings);
  BOOST_TEST_REQUIRE(low.code == 0, low.err);
  for (const char* key : {"SRSCALE", "SRMODE", "SRFLUX", "SRWCSOK"})
    BOOST_TEST(!image("low.fits").header.has(key), key);
  for (const char* key : {"SRVERS", "SRMODEL", "SRBMAJ"}) BOOST_TEST(image("low.fits").header.has(key), key);
}

BOOST_FIXTURE_TEST_CASE(one_evaluation_has_no_ensemble_to_write, Folder) {
  done({"map.fits", "--beam", "none", "--sampler", "mean", "--save-members"});
  BOOST_TEST(hdu_names(at("map_x4.fits").string()) == (std::vector<std::string>{"PRIMARY", "RESIDUAL", "MASK"}),
             boost::test_tools::per_element());
  BOOST_TEST(image("map_x4.fits").header.get<std::int64_t>("SRNMEM").value() == 1);
  BOOST_TEST(image("map_x4.fits").header.get<std::int64_t>("SRSTEPS").value() == 1);
}

BOOST_FIXTURE_TEST_CASE(per_pixel_units_keep_the_sum_and_their_residual_its_unit, Folder) {
  make_map("flux.fits", 16, 16, "BUNIT   = 'Jy/pixel'\nBMAJ    = 0.00666\n");
  const fits::Image in = image("flux.fits");
  done({"flux.fits", "--beam", "none", "-o", "block.fits"});
  BOOST_TEST(largest_difference(fits::block_sum(image("block.fits").pixels, 64, 64, 4), in.pixels) < 1e-5);
  done(shipped({"flux.fits", "--noise", "0.05", "-o", "beam.fits"}));
  const fits::Image out = image("beam.fits"), residual = image("beam.fits", "RESIDUAL");
  // The kernel keeps the sum, so that residual is input minus output, each summed, but for light across the borders.
  BOOST_TEST(sum_of(out.pixels) + sum_of(residual.pixels) == sum_of(in.pixels), boost::test_tools::tolerance(2e-3));
  BOOST_TEST(std::abs(sum_of(out.pixels) / sum_of(in.pixels) - 1) < 0.01);
}

BOOST_FIXTURE_TEST_CASE(a_chosen_output_beam_changes_per_beam_values_with_their_unit, Folder) {
  make_map("beam.fits", 32, 32,
           "BUNIT   = 'Jy/beam'\nBMAJ    = 0.00666666666666667\nBMIN    = 0.00666666666666667\nBPA     = 0.0\n");
  const double in_sum = sum_of(image("beam.fits").pixels);
  done(shipped({"beam.fits", "--noise", "0.05", "--beam-out", "6arcsec"}));
  const fits::Image out = image("beam_x4.fits"), residual = image("beam_x4.fits", "RESIDUAL");
  const double ratio = 36.0 / (24 * 24), out_sum = sum_of(out.pixels);
  BOOST_TEST(out.header.get<double>("BMAJ").value() == 6.0 / 3600, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(out.header.get<double>("OBMAJ").value() == 24.0 / 3600, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(out_sum / 16 == in_sum * ratio, boost::test_tools::tolerance(0.01));
  BOOST_TEST(residual.header.get<double>("BMAJ").value() == 24.0 / 3600, boost::test_tools::tolerance(1e-9));
  // Input = residual + output seen through the old beam, both in Jy per old beam, but for light across the borders.
  BOOST_TEST(sum_of(residual.pixels) + out_sum / 16 / ratio == in_sum, boost::test_tools::tolerance(2e-3));
}

BOOST_FIXTURE_TEST_CASE(output_is_float32_or_float64_or_compressed_without_loss, Folder) {
  make_double("wide.fits");
  done({"map.fits", "--beam", "none", "--no-png", "-o", "plain.fits"});
  done({"wide.fits", "--beam", "none", "--no-png", "-o", "narrow.fits"});
  done({"wide.fits", "--beam", "none", "--no-png", "--double", "-o", "double.fits"});
  done({"map.fits", "--beam", "none", "--no-png", "--compress", "-o", "small.fits"});
  done({"map.fits", "--beam", "none", "--no-png", "-o", "zipped.fits.gz"});
  const fits::Image plain = image("plain.fits"), wide = image("double.fits");
  BOOST_TEST(plain.bitpix == -32);
  BOOST_TEST((image("narrow.fits").bitpix == -32 && wide.bitpix == -64));
  BOOST_TEST(largest_difference(plain.pixels, wide.pixels) < 1e-6);
  BOOST_TEST(largest_difference(fits::block_mean(wide.pixels, 48, 40, 4), image("map.fits").pixels) < 1e-12);
  BOOST_TEST((image("small.fits").pixels == plain.pixels));
  BOOST_TEST(fits::list_hdus(at("small.fits").string())[1].type == "CompImageHDU");
  BOOST_TEST((image("zipped.fits.gz").pixels == plain.pixels));
  BOOST_TEST(bytes("zipped.fits.gz").starts_with("\x1f\x8b"));
  BOOST_TEST(!fs::exists(at("plain.png")));
  // A map of 32-bit floats has no more digits to give.
  BOOST_TEST(contains(done({"map.fits", "--beam", "none", "--no-png", "--double", "-o", "same.fits"}).err,
                      "--double has no effect"));
  BOOST_TEST(image("same.fits").bitpix == -32);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(enhance_cubes)

BOOST_FIXTURE_TEST_CASE(planes_have_noise_of_their_own, Folder) {
  const std::vector<float> flat(2 * 16 * 16, 1.0F);
  std::vector<float> pixels = flat;
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] += static_cast<float>(std::sin(0.9 * static_cast<double>(i % 256)));
  const fits::OutputHdu hdu{"", fits::Header::from_lines("BUNIT   = 'K'"), std::span<const float>(pixels), {16, 16, 2}};
  fits::write_images(at("twins.fits").string(), {&hdu, 1}, {});
  done({"twins.fits", "--beam", "none", "--all-planes", "--no-png"});
  BOOST_TEST(largest_difference(image("twins_x4.fits", "SAMPLE", 1).pixels,
                                image("twins_x4.fits", "SAMPLE", 2).pixels) > 0.01);
}

BOOST_FIXTURE_TEST_CASE(all_planes_are_enhanced_and_each_equals_the_plane_alone, Folder) {
  make_map("cube.fits", 12, 10,
           "BUNIT   = 'K'\nCTYPE3  = 'VRAD'\nCRPIX3  = 1.0\nCRVAL3  = 100.0\nCDELT3  = 5.0\nCUNIT3  = 'm/s'\n", 4,
           {1, 3});
  const json j = as_json({"cube.fits", "--beam", "none", "--all-planes"});
  BOOST_TEST(j["planes"] == 4);
  bool told = false;
  for (const auto& w : j["warnings"]) told = told || contains(w.get<std::string>(), "plane 3 holds no data");
  BOOST_TEST(told);
  const std::string out = at("cube_x4.fits").string();
  for (const fits::HduInfo& h : fits::list_hdus(out)) {
    const bool small = h.name == "RESIDUAL";
    BOOST_TEST(h.axes == (std::vector<std::int64_t>{small ? 12 : 48, small ? 10 : 40, 4}),
               boost::test_tools::per_element());
  }
  const fits::Image whole = image("cube_x4.fits", "", 2);
  BOOST_TEST(whole.header.get<double>("CDELT3").value() == 5.0);
  for (const char* hdu : {"", "STD", "SAMPLE", "RESIDUAL", "PRIOR"}) {
    for (const std::int64_t blank : {1, 3}) {
      const auto pixels = image("cube_x4.fits", hdu, blank).pixels;
      BOOST_TEST(std::all_of(pixels.begin(), pixels.end(), [](double v) { return std::isnan(v); }),
                 hdu << " of plane " << blank);
    }
  }
  const auto mask = image("cube_x4.fits", "MASK", 3).pixels;
  BOOST_TEST(std::all_of(mask.begin(), mask.end(), [](double v) { return v == 1; }));
  for (const char* plane : {"2", "4"}) {
    done({"cube.fits", "--beam", "none", "--plane", plane, "-o", "one.fits", "--overwrite"});
    const fits::Image one = image("one.fits");
    BOOST_TEST(one.axes == (std::vector<std::int64_t>{48, 40, 1}), boost::test_tools::per_element());
    for (const char* hdu : {"", "STD", "SAMPLE", "PRIOR"})
      BOOST_TEST((image("one.fits", hdu).pixels == image("cube_x4.fits", hdu, std::stol(plane)).pixels),
                 hdu << " of plane " << plane);
  }
  // Noise differs from plane to plane.
  BOOST_TEST(largest_difference(image("cube_x4.fits", "STD", 2).pixels, image("cube_x4.fits", "STD", 4).pixels) > 0);
  const std::vector<std::string> history = whole.header.commentary("HISTORY");
  BOOST_TEST(std::any_of(history.begin(), history.end(),
                         [](const std::string& h) { return contains(h, "Plane 3: no data"); }));
}

BOOST_FIXTURE_TEST_CASE(members_of_a_cube_are_a_further_axis, Folder) {
  make_map("cube.fits", 8, 8, "BUNIT   = 'K'\n", 2);
  done({"cube.fits", "--beam", "none", "--all-planes", "--save-members", "--members", "3"});
  const fits::Image first = image("cube_x4.fits", "MEMBERS", 1), second = image("cube_x4.fits", "MEMBERS", 2);
  BOOST_TEST(first.axes == (std::vector<std::int64_t>{32, 32, 2, 3}), boost::test_tools::per_element());
  BOOST_TEST((first.pixels == image("cube_x4.fits", "SAMPLE", 1).pixels));
  BOOST_TEST((second.pixels == image("cube_x4.fits", "SAMPLE", 2).pixels));
}

BOOST_FIXTURE_TEST_CASE(axes_of_length_one_are_kept, Folder) {
  const fits::Image map = image("map.fits");
  fits::Header header = map.header;
  header.set("CTYPE3", std::string("FREQ"));
  header.set("CTYPE4", std::string("STOKES"));
  for (const auto& [name, axes, out_axes] :
       {std::tuple<std::string, std::vector<std::int64_t>, std::vector<std::int64_t>>{
            "stokes.fits", {12, 10, 1, 1}, {48, 40, 1, 1}},
        {"first.fits", {1, 12, 10}, {1, 48, 40}}}) {
    const fits::OutputHdu hdu{"", name == "first.fits" ? fits::Header{} : header, std::span<const double>(map.pixels),
                              axes};
    fits::write_images(at(name).string(), {&hdu, 1}, {});
    done({name, "--beam", "none", "-o", "out.fits", "--overwrite"});
    for (const char* h : {"", "STD", "SAMPLE", "PRIOR", "MASK"})
      BOOST_TEST(image("out.fits", h).axes == out_axes, boost::test_tools::per_element());
    BOOST_TEST(largest_difference(fits::block_mean(image("out.fits").pixels, 48, 40, 4), map.pixels) < 5e-6);
  }
  BOOST_TEST(image("stokes.fits").header.get<std::string>("CTYPE4").value() == "STOKES");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(enhance_names)

BOOST_FIXTURE_TEST_CASE(odd_names_are_taken_literally_where_they_exist, Folder) {
  for (const std::string name :
       {"map[v2].fits", "a+1.fits", "with space.fits", "\xc3\xa9toile.fits", "it's.fits", "-dash.fits"}) {
    fs::copy_file(at("map.fits"), at(name));
    const Outcome outcome = done({"--beam", "none", "--", name});
    const std::string out = name.substr(0, name.size() - 5) + "_x4.fits";
    BOOST_TEST(fs::exists(at(out)), out);
    BOOST_TEST(fs::exists(at(name.substr(0, name.size() - 5) + "_x4.png")));
    BOOST_TEST(contains(outcome.out, "ds9 "));
    BOOST_TEST(fits::read_image(at(out).string()).width == 48);
  }
  fs::copy_file(at("map.fits"), at("!loud.fits"));
  done({"!loud.fits", "--beam", "none", "-o", "quiet.fits"});
  BOOST_TEST(fs::exists(at("quiet.fits")));
}

BOOST_FIXTURE_TEST_CASE(sections_compressed_inputs_lists_and_stdin, Folder) {
  done({"map.fits[2:9,1:6]", "--beam", "none", "-o", "section.fits"});
  const fits::Image section = image("section.fits");
  BOOST_TEST(section.width == 32);
  BOOST_TEST(section.header.get<double>("CRPIX1").value() == 4 * (4.25 - 1 - 0.5) + 0.5);
  put(at("list.txt"), "# maps\nmap.fits\n\ncopy.fits\n");
  fs::copy_file(at("map.fits"), at("copy.fits"));
  const json j = as_json({"@list.txt", "--beam", "none"});
  BOOST_TEST(j["maps"].size() == 2u);
  BOOST_TEST(j["maps"][1]["output"] == "copy_x4.fits");
  BOOST_TEST((image("copy_x4.fits").pixels == image("map_x4.fits").pixels));
  settings.input = bytes("map.fits");
  done({"-", "--beam", "none"});
  BOOST_TEST((image("stdin_x4.fits").pixels == image("map_x4.fits").pixels));
}

BOOST_FIXTURE_TEST_CASE(the_output_goes_to_the_current_folder_and_tells_no_paths, Folder) {
  fs::create_directory(scratch / "data");
  fs::copy_file(at("map.fits"), scratch / "data/far.fits");
  const std::string secret = scratch.path().filename().string();
  done({(scratch / "data/far.fits").string(), "--beam", "none", "--model",
        (scratch / "models/dust-x4.safetensors").string(), "-o", at("near.fits").string()});
  done({"../data/far.fits", "--beam", "none"});
  BOOST_TEST(fs::exists(at("far_x4.fits")));
  for (const char* name : {"near.fits", "far_x4.fits"}) {
    BOOST_TEST(!contains(bytes(name), secret), name << " holds the path of a folder");
    std::string history;  // cards break the command at 72 characters
    for (const std::string& card : image(name).header.commentary("HISTORY")) history += card + " ";
    BOOST_TEST((contains(history, "cirrus enhance") && contains(history, "far.fits")), history);
  }
  BOOST_TEST(image("near.fits").header.get<std::string>("SRMODEL").value() == "dust-x4");
}

BOOST_FIXTURE_TEST_CASE(the_models_factor_names_the_output, Folder) {
  done({"map.fits", "--beam", "none", "--model", "dust-x2"});
  BOOST_TEST(image("map_x2.fits").width == 24);
  BOOST_TEST(!fs::exists(at("map_x4.fits")));
}

BOOST_AUTO_TEST_SUITE_END()
