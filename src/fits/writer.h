// Writing maps: a file of one or more images, complete under its final name or not there at all (temporary name in the
// target folder, fsync, rename). Equal input gives equal bytes when SOURCE_DATE_EPOCH is set. Headers are written card
// by card.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "fits/header.h"

namespace cirrus::fits {

/// float32 (BITPIX -32), float64 (-64) or bytes (8), first row = FITS row 1, NaN where there is no value.
using Pixels = std::variant<std::span<const float>, std::span<const double>, std::span<const std::uint8_t>>;

struct OutputHdu {
  std::string name;  ///< EXTNAME; "" leaves what the header says (the primary needs none)
  Header header;     ///< structural, scaling and checksum keywords in it are replaced by the file's own
  Pixels pixels;
  std::vector<std::int64_t>
      axes;  ///< NAXISn: {width, height}, or with further axes; their product is the number of pixels
};

struct WriteOptions {
  bool overwrite = false;  ///< as a leading '!' of the name
  bool compress = false;   ///< lossless tiles: GZIP_2, not quantized; the primary HDU is then empty and HDU 1 the image
  std::vector<std::string> inputs{};  ///< files that must not be overwritten even so
  std::function<void()> poll{};       ///< called between HDUs; what it throws ends the writing without a trace
};

/// Throws now what write_images would throw for its name: cannot_create (exists, is an input, folder missing, not
/// writable), usage (a name in CFITSIO's extended syntax). For long jobs: ask before, not after. Returns the final
/// path.
std::string check_output(const std::string& name, const WriteOptions& options = {});

/// Writes the file: first HDU = primary image, the rest IMAGE extensions; DATE, CREATOR, and last in each HDU CHECKSUM
/// and DATASUM. DATAMIN and DATAMAX are recomputed where the header has them. A name ending in .gz is compressed as a
/// whole. Returns the final path. Throws as check_output, and io (disk full, write error); the temporary file is
/// removed.
std::string write_images(const std::string& name, std::span<const OutputHdu> hdus, const WriteOptions& options = {});

}  // namespace cirrus::fits
