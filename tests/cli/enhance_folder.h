// What the tests of `cirrus enhance` share: a folder with a small untrained model and a map in it, and how the program
// is run there.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

#include "fits/image.h"
#include "fits/writer.h"
#include "tests/cli/subprocess.h"
#include "tests/enhance/tiny_model.h"

namespace cirrus::test {

struct EnhanceFolder {
  ScratchFolder scratch;
  RunSettings settings{.folder = scratch.path()};

  EnhanceFolder() {
    std::filesystem::create_directory(scratch / "models");
    write_tiny_model(scratch / "models/dust-x4.safetensors", tiny_card(4));
    write_tiny_model(scratch / "models/dust-x2.safetensors", tiny_card(2));
    settings.environment["CIRRUS_MODELS"] = (scratch / "models").string();
    std::filesystem::create_directory(scratch / "work");
    settings.folder = scratch / "work";
    make_map("map.fits", 12, 10);
  }

  std::filesystem::path at(const std::string& name) const { return scratch / ("work/" + name); }
  std::string bytes(const std::string& name) const { return contents(at(name)); }
  std::size_t files() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(scratch / "work")) ++n;
    return n;
  }

  /// The flags for the model that ships, or, where there is none, for the untrained one of the folder.
  std::vector<std::string> shipped_model(std::int64_t factor) const {
    const std::string name = "dust-x" + std::to_string(factor) + ".safetensors";
    std::vector<std::filesystem::path> places;
    if (const char* models = std::getenv("CIRRUS_MODELS")) places.emplace_back(models);
    if (const char* source = std::getenv("CIRRUS_SOURCE")) places.push_back(std::filesystem::path(source) / "models");
    for (const auto& place : places)
      if (std::filesystem::exists(place / name)) return {"--model", (place / name).string()};
    BOOST_TEST_MESSAGE("no " << name << " among the models: an untrained one serves");
    return {"--model", (scratch / ("models/" + name)).string()};
  }

  /// cirrus enhance WORDS, with 2 members of 2 evaluations in fp32 on one thread unless `plain`.
  Outcome enhance(const std::vector<std::string>& words, bool plain = false) {
    std::vector<std::string> all{"enhance"};
    if (!plain) all.insert(all.end(), {"--members", "2", "--steps", "2", "--dtype", "fp32", "--threads", "1"});
    all.insert(all.end(), words.begin(), words.end());  // a later flag wins
    return run("cirrus", all, settings);
  }

  /// The same, where it must succeed.
  Outcome done(const std::vector<std::string>& words) {
    Outcome outcome = enhance(words);
    BOOST_TEST_REQUIRE(outcome.code == 0, outcome.err);
    return outcome;
  }
  nlohmann::json as_json(std::vector<std::string> words) {
    words.push_back("--json");
    return nlohmann::json::parse(done(words).out);
  }

  /// A smooth map of 10" pixels with a source, in planes if asked for, some of them blank.
  void make_map(const std::string& name, std::int64_t width, std::int64_t height,
                const std::string& cards = "BUNIT   = 'MJy/sr'\n", std::int64_t planes = 1,
                const std::vector<std::int64_t>& blank = {}) {
    std::vector<float> pixels;
    for (std::int64_t p = 0; p < planes; ++p)
      for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
          const double fx = static_cast<double>(x), fy = static_cast<double>(y), fp = static_cast<double>(p);
          const double value = 2 + std::sin(0.7 * fx + fp) * std::cos(0.5 * fy) +
                               8 * std::exp(-0.5 * (std::pow(fx - 4, 2) + std::pow(fy - 5, 2)));
          pixels.push_back(std::count(blank.begin(), blank.end(), p + 1) > 0 ? NAN : static_cast<float>(value));
        }
    fits::Header header = fits::Header::from_lines(
        "CTYPE1  = 'RA---TAN'\nCTYPE2  = 'DEC--TAN'\nCRVAL1  = 83.5\nCRVAL2  = -5.25\nCRPIX1  = 4.25\nCRPIX2  = 7.5\n"
        "CDELT1  = -0.00277777777777778\nCDELT2  = 0.00277777777777778\nOBJECT  = 'cloud'\n" +
        cards);
    std::vector<std::int64_t> axes{width, height};
    if (planes > 1) axes.push_back(planes);
    const fits::OutputHdu hdu{"", header, std::span<const float>(pixels), axes};
    fits::write_images(at(name).string(), {&hdu, 1}, {.overwrite = true});
  }

  /// map.fits as 64-bit floats.
  void make_double(const std::string& name) {
    const fits::Image map = image("map.fits");
    const fits::OutputHdu hdu{"", map.header, std::span(map.pixels), {map.width, map.height}};
    fits::write_images(at(name).string(), {&hdu, 1}, {.overwrite = true});
  }

  fits::Image image(const std::string& name, const std::string& hdu = "", std::int64_t plane = 0) const {
    return fits::read_image(at(name).string(), {.hdu = hdu, .plane = plane});
  }
};

}  // namespace cirrus::test
