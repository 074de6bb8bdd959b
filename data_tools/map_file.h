// What the verbs of cirrus-data share: which image of a file is meant, reading it with its warnings said, and the words
// of the command for HISTORY.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "base/options.h"
#include "base/run_options.h"
#include "fits/image.h"

namespace cirrus::data_tools {

struct MapChoice {
  std::string hdu;
  std::optional<std::int64_t> plane;
};
/// Registers --hdu and --plane (group Input).
void add_map_choice(Options& options, MapChoice& choice);

/// Reads a map and issues its warnings with the file's name. Throws as fits::read_image.
fits::Image read_map(const std::string& name, const MapChoice& choice);

/// float64 [height, width] on the CPU, sharing the image's memory.
at::Tensor pixels_of(fits::Image& image);

/// cirrus-data works on the CPU: throws Error(unavailable) for another --device; sets the number of threads.
void prepare_cpu(const RunOptions& run);

/// FWHM in arcseconds of --beam-in and the like. Throws Error(usage) if it is not a positive angle.
double beam_arcsec(const std::string& flag, const std::string& text);

/// "cirrus-data degrade map.fits --factor 4": file names without folders, since published maps should not tell whose
/// disk they were made on.
std::string command_for_history(const std::string& verb, const std::vector<std::string>& words);

/// "298 x 149 pixels (1.1 MB)" for an image of 4-byte pixels, or of `bytes` a pixel.
std::string size_text(std::int64_t width, std::int64_t height, int bytes = 4);

}  // namespace cirrus::data_tools
