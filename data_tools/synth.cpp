// cirrus-data synth: synthetic dust maps with known truth, as FITS maps with sky coordinates, unit and beam.
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/signals.h"
#include "data_tools/map_file.h"
#include "data_tools/verbs.h"
#include "fits/writer.h"
#include "sky/angle.h"
#include "sky/dust.h"

namespace cirrus::data_tools {
namespace {

struct SynthFlags {
  std::string output;
  std::string size = "512";
  std::string family = "mixed";
  sky::DustSpec spec{.sigma = 1};
  std::string pixel = "3arcsec";
  std::optional<std::string> beam;
  std::int64_t number = 1;
};

struct Grid {
  std::int64_t width = 0, height = 0;
  double pixel_arcsec = 0;
};

void register_flags(Options& options, SynthFlags& flags) {
  options.group("Output");
  options.add("output", flags.output, "the map; with --number above 1 a number is put before the extension")
      .short_flag('o')
      .metavar("OUT.fits")
      .required();
  options.group("Sky");
  options.add("size", flags.size, "size in pixels").metavar("N|WxH");
  options.add("family", flags.family, "kind of field")
      .one_of({"lognormal", "cascade", "filaments", "advected", "warped", "mixed"});
  options.add("beta", flags.spec.beta, "slope of the power spectrum, P(k) ~ k^-beta").range(0.5, 6);
  options.add("sigma", flags.spec.sigma, "rms of ln I").range(0, 5);
  options.add("sources", flags.spec.sources, "number of compact sources").range(0, 1e6);
  options.add("pixel", flags.pixel, "pixel size").metavar("ANGLE");
  options.add("beam", flags.beam, "FWHM of the beam the sky is seen through, or none")
      .metavar("FWHM")
      .default_text(sky::angle_text(flags.spec.beam_pixels * sky::arcsec_of(flags.pixel)) +
                    ", or as many pixels at another pixel size");
  options.add("number", flags.number, "how many maps").metavar("N").range(1, 1e6);
}

std::int64_t side_of(std::string_view text, const std::string& whole) {
  std::int64_t side = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), side);
  if (failure != std::errc() || end != text.data() + text.size() || side < 8 || side > 65536) {
    throw Error(ExitCode::usage, "--size " + whole + ": not a size", "N or WxH, 8 to 65536 pixels");
  }
  return side;
}

Grid grid_of(const SynthFlags& flags) {
  const std::string_view text = flags.size;
  const std::size_t cross = text.find('x');
  Grid grid;
  grid.width = side_of(text.substr(0, cross), flags.size);
  grid.height = cross == std::string_view::npos ? grid.width : side_of(text.substr(cross + 1), flags.size);
  grid.pixel_arcsec = beam_arcsec("--pixel", flags.pixel);
  return grid;
}

/// map.fits, or map_007.fits for the 7th of 100; .fits.gz stays together.
std::string name_of_map(const std::string& output, std::int64_t index, std::int64_t number) {
  if (number == 1) return output;
  const std::string digits = std::to_string(number);
  std::string count = std::to_string(index + 1);
  count.insert(0, digits.size() - count.size(), '0');
  const std::size_t slash = output.rfind('/');
  const std::size_t dot = output.find('.', slash == std::string::npos ? 0 : slash + 1);
  const std::string stem = output.substr(0, dot);
  return stem + "_" + count + (dot == std::string::npos ? "" : output.substr(dot));
}

fits::Header header_of(const Grid& grid, const SynthFlags& flags, std::int64_t seed, std::int64_t index,
                       const std::string& command) {
  const double degrees = grid.pixel_arcsec / 3600;
  fits::Header header;
  header.set("OBJECT", std::string("synthetic dust"));
  header.set("BUNIT", std::string("MJy/sr"));
  header.set("CTYPE1", std::string("GLON-TAN"));
  header.set("CTYPE2", std::string("GLAT-TAN"));
  header.set("CUNIT1", std::string("deg"));
  header.set("CUNIT2", std::string("deg"));
  header.set("CRVAL1", 120.0);
  header.set("CRVAL2", 30.0);
  header.set("CRPIX1", 0.5 * (static_cast<double>(grid.width) + 1));
  header.set("CRPIX2", 0.5 * (static_cast<double>(grid.height) + 1));
  header.set("CDELT1", -degrees);
  header.set("CDELT2", degrees);
  if (flags.spec.beam_pixels > 0) {
    header.set("BMAJ", flags.spec.beam_pixels * degrees, "[deg] FWHM of the beam");
    header.set("BMIN", flags.spec.beam_pixels * degrees, "[deg]");
    header.set("BPA", 0.0, "[deg]");
  }
  header.set("SYFAMILY", sky::name_of(flags.spec.family), "kind of synthetic field");
  header.set("SYBETA", flags.spec.beta, "slope of the power spectrum asked for");
  header.set("SYSIGMA", flags.spec.sigma, "rms of ln I");
  header.set("SYNSRC", flags.spec.sources, "compact sources");
  header.set("SYSEED", seed, "seed");
  header.set("SYINDEX", index, "which map of this seed");
  header.add_comment("Synthetic: this map shows no real sky.");
  header.add_history(command);
  return header;
}

}  // namespace

int synth(const Arguments& arguments) {
  SynthFlags flags;
  RunOptions run;
  Options options("cirrus-data synth",
                  "Make synthetic dust maps: MJy/sr, known statistics, galactic coordinates of no real field.");
  register_flags(options, flags);
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  prepare_cpu(run);

  const Grid grid = grid_of(flags);
  flags.spec.family = sky::family_of(flags.family);
  if (flags.beam)
    flags.spec.beam_pixels = *flags.beam == "none" ? 0 : beam_arcsec("--beam", *flags.beam) / grid.pixel_arcsec;
  const OutputName out = output_name(flags.output, run.overwrite);
  const fits::WriteOptions write{.overwrite = out.overwrite, .poll = signals::check_interrupt};
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < flags.number; ++i) {
    names.push_back(name_of_map(out.path.string(), i, flags.number));
    fits::check_output(names.back(), write);
  }
  if (run.dry_run) {
    for (const std::string& name : names) log::print("would write " + name + ", " + size_text(grid.width, grid.height));
    return 0;
  }

  const std::string command = command_for_history("synth", arguments.words);
  Progress progress("synth", flags.number, "maps");
  for (std::int64_t i = 0; i < flags.number; ++i) {
    signals::check_interrupt();
    const at::Tensor map = sky::make_dust(flags.spec, static_cast<std::uint64_t>(run.seed),
                                          static_cast<std::uint64_t>(i), grid.height, grid.width)
                               .contiguous();
    const fits::OutputHdu hdu{
        "",
        header_of(grid, flags, run.seed, i, command),
        std::span<const float>(map.const_data_ptr<float>(), static_cast<std::size_t>(map.numel())),
        {grid.width, grid.height}};
    fits::write_images(names[static_cast<std::size_t>(i)], {&hdu, 1}, write);
    log::print(names[static_cast<std::size_t>(i)]);
    progress.advance();
  }
  if (run.json) {
    const nlohmann::ordered_json object = {{"outputs", names},
                                           {"width", grid.width},
                                           {"height", grid.height},
                                           {"family", flags.family},
                                           {"beta", flags.spec.beta},
                                           {"sigma", flags.spec.sigma},
                                           {"sources", flags.spec.sources},
                                           {"pixel_arcsec", grid.pixel_arcsec},
                                           {"beam_arcsec", flags.spec.beam_pixels * grid.pixel_arcsec},
                                           {"seed", run.seed},
                                           {"warnings", log::warnings()}};
    log::print_json(object.dump());
  }
  return 0;
}

}  // namespace cirrus::data_tools
