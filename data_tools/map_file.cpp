// Shared steps of the verbs; see map_file.h.
#include "data_tools/map_file.h"

#include <ATen/Parallel.h>

#include <cstdio>
#include <filesystem>

#include "base/errors.h"
#include "base/log.h"
#include "sky/angle.h"

namespace cirrus::data_tools {

void add_map_choice(Options& options, MapChoice& choice) {
  options.group("Input");
  options.add("hdu", choice.hdu, "HDU by number (0 = primary) or name")
      .metavar("N|NAME")
      .default_text("the first with a 2-D image");
  options.add("plane", choice.plane, "plane of a cube, counted from 1").metavar("N").range(1);
}

fits::Image read_map(const std::string& name, const MapChoice& choice) {
  fits::Image image = fits::read_image(name, {.hdu = choice.hdu, .plane = choice.plane.value_or(0)});
  for (const std::string& warning : image.warnings) log::warning(name + ": " + warning);
  return image;
}

at::Tensor pixels_of(fits::Image& image) {
  return at::from_blob(image.pixels.data(), {image.height, image.width}, at::kDouble);
}

void prepare_cpu(const RunOptions& run) {
  if (run.device != "auto" && run.device != "cpu") {
    throw Error(ExitCode::unavailable, "cirrus-data does not compute on " + run.device,
                "it works on the CPU: leave --device out");
  }
  at::set_num_threads(resolve_threads(run.threads));
}

double beam_arcsec(const std::string& flag, const std::string& text) {
  const double fwhm = sky::arcsec_of(text);
  if (!(fwhm > 0))
    throw Error(ExitCode::usage, flag + " " + text + ": not a positive angle", "for example 18.2arcsec or 5arcmin");
  return fwhm;
}

std::string command_for_history(const std::string& verb, const std::vector<std::string>& words) {
  std::string command = "cirrus-data " + verb;
  for (const std::string& word : words) {
    const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const std::string before = equals == std::string::npos ? "" : word.substr(0, equals + 1);
    const std::string value = word.substr(before.size());
    const bool is_path = value.find('/') != std::string::npos;
    command += " " + before + (is_path ? std::filesystem::path(value).filename().string() : value);
  }
  return command;
}

std::string size_text(std::int64_t width, std::int64_t height, int bytes) {
  char text[96];
  std::snprintf(text, sizeof text, "%lld x %lld pixels (%.3g MB)", static_cast<long long>(width),
                static_cast<long long>(height),
                1e-6 * bytes * static_cast<double>(width) * static_cast<double>(height));
  return text;
}

}  // namespace cirrus::data_tools
