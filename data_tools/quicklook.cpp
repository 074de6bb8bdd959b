// cirrus-data quicklook: a PNG picture of one map, or of several side by side with one stretch.
#include "enhance/quicklook.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "data_tools/map_file.h"
#include "data_tools/verbs.h"
#include "fits/names.h"
#include "fits/units.h"
#include "sky/angle.h"

namespace cirrus::data_tools {
namespace {

struct QuicklookFlags {
  std::vector<std::string> inputs;
  MapChoice choice;
  std::string output;
  enhance::QuicklookOptions picture{.side = 768};
  bool shared = true;
};

void register_flags(Options& options, QuicklookFlags& flags) {
  options.positionals("FILE", flags.inputs, "FITS maps, or @list.txt; several are drawn side by side", 1);
  add_map_choice(options, flags.choice);
  options.group("Output");
  options.add("output", flags.output, "the picture")
      .short_flag('o')
      .metavar("FILE.png")
      .default_text("name of the first map, .png");
  options.add("png16", flags.picture.sixteen_bit, "16 bits a channel");
  options.group("Picture");
  options.add("stretch", flags.picture.stretch, "how values become colours")
      .one_of({std::begin(enhance::kStretches), std::end(enhance::kStretches)});
  options.add("cmap", flags.picture.cmap, "colour map")
      .one_of({std::begin(enhance::kColorMaps), std::end(enhance::kColorMaps)});
  options.add("side", flags.picture.side, "longer side of a map on the picture, in pixels")
      .metavar("N")
      .range(16, 8192);
  options.add("shared", flags.shared, "one range of values for all maps");
}

}  // namespace

int quicklook(const Arguments& arguments) {
  QuicklookFlags flags;
  RunOptions run;
  Options options("cirrus-data quicklook",
                  "Draw maps as a PNG picture: row 1 at the bottom, a colour bar with the unit.");
  register_flags(options, flags);
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  prepare_cpu(run);

  const std::string default_name = fits::output_name(flags.inputs.front(), "", ".png");
  const OutputName out = output_name(flags.output.empty() ? default_name : flags.output, run.overwrite);
  if (out.path != "-" && out.path.extension() != ".png" && out.path.extension() != ".PNG")
    throw Error(ExitCode::usage, "--output " + out.path.string() + ": the picture is a PNG", "end the name in .png");
  require_writable_output(out.path, out.overwrite, {flags.inputs.begin(), flags.inputs.end()});
  if (run.dry_run) {
    log::print("would read " + std::to_string(flags.inputs.size()) + " map(s) and write " + out.path.string());
    return 0;
  }

  std::vector<std::vector<float>> pixels;
  std::vector<enhance::Panel> panels;
  for (const std::string& name : flags.inputs) {
    const fits::Image image = read_map(name, flags.choice);
    pixels.emplace_back(image.pixels.begin(), image.pixels.end());
    if (std::none_of(pixels.back().begin(), pixels.back().end(), [](float v) { return std::isfinite(v); })) {
      log::warning(name + ": no pixel has a value");
    }
    std::string title = std::filesystem::path(fits::file_path(name)).filename().string();
    if (const auto scale = fits::pixel_scale(image.header, image.axis_x, image.axis_y)) {
      title += "  " + sky::angle_text(scale->arcsec) + "/pixel";
    }
    const std::string unit = image.header.get<std::string>("BUNIT").value_or("");
    if (panels.empty())
      flags.picture.unit = unit;
    else if (unit != flags.picture.unit)
      log::warning(name + ": BUNIT '" + unit + "' differs from '" + flags.picture.unit + "'");
    panels.push_back({title, {}, image.width, image.height, !flags.shared});
  }
  for (std::size_t i = 0; i < panels.size(); ++i) panels[i].pixels = pixels[i];
  const std::string png = enhance::draw_panels(panels, flags.picture);
  if (out.path == "-") {
    std::fwrite(png.data(), 1, png.size(), stdout);
    return 0;
  }
  write_text(out.path, png, out.overwrite);
  log::print(out.path.string());
  if (run.json) {
    const nlohmann::ordered_json object = {{"output", out.path.string()},
                                           {"inputs", flags.inputs},
                                           {"stretch", flags.picture.stretch},
                                           {"cmap", flags.picture.cmap},
                                           {"warnings", log::warnings()}};
    log::print_json(object.dump());
  }
  return 0;
}

}  // namespace cirrus::data_tools
