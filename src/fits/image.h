// Reading images: which file a name means, which HDU, which plane, its pixels as doubles with NaN where there is no
// value, and its header. Formats are CFITSIO's: plain, .gz, .fz and tile-compressed, sections, stdin. Nothing here
// changes a header's meaning, except that a chosen plane of a cube is described as that plane.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fits/header.h"

namespace cirrus::fits {

struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<double> pixels;  ///< row-major, first row = FITS row 1; NaN where blank, NaN or infinite
  Header header;               ///< every card of the HDU, structural ones too; a compressed image's as if uncompressed
  std::string path;            ///< the name it was opened with
  std::string hdu_name;        ///< EXTNAME, or ""
  int hdu_number = 0;          ///< 0 = primary, as in CFITSIO's map.fits[0] and astropy
  int bitpix = -32;            ///< as stored
  std::vector<std::int64_t> axes;  ///< all NAXISn, length-1 axes included
  int axis_x = 1, axis_y = 2;      ///< FITS numbers of the two image axes (the first two longer than 1)
  std::int64_t plane = 1;          ///< 1-based, over all other axes together
  std::int64_t planes = 1;
  std::vector<std::string> warnings;
};

struct ReadOptions {
  std::string hdu{};        ///< number (0 = primary) or EXTNAME; "" = the first HDU with a 2-D image
  std::int64_t plane = 0;   ///< 1-based; 0 = the only one (a cube is then an error)
  bool whole_cube = false;  ///< the header stays the cube's (for reading plane after plane)
  bool verify_checksum = true;
};

/// Reads one 2-D image. Names: an existing file of exactly that name wins, else CFITSIO's extended syntax
/// (map.fits[EXT][1:9,1:9]). Throws Error: no_input (missing file), bad_data (not FITS, no image, HEALPix table, cube
/// without a plane, truncated), usage (HDU or plane that does not exist, HDU given twice), io.
Image read_image(const std::string& name, const ReadOptions& options = {});

/// Whether no pixel has a value.
bool is_blank(const Image& image);

/// How many planes the image of that HDU has (1 for a 2-D image). Throws as read_image.
std::int64_t count_planes(const std::string& name, const std::string& hdu = "");

/// NAXISn of an output with the input's degenerate axes restored: the image axes become width and height, other axes 1,
/// or what they were if all planes are written.
std::vector<std::int64_t> output_axes(const Image& image, std::int64_t width, std::int64_t height,
                                      bool all_planes = false);

struct HduInfo {
  int number = 0;    ///< 0 = primary
  std::string name;  ///< EXTNAME; "PRIMARY" for an unnamed primary
  int version = 1;
  std::string type;  ///< PrimaryHDU, ImageHDU, CompImageHDU, BinTableHDU, TableHDU
  int cards = 0;
  std::vector<std::int64_t> axes;  ///< NAXISn; for tables rows and columns
  std::string format;              ///< float32, int16, ...; for tables ""
  bool healpix = false;            ///< PIXTYPE = 'HEALPIX'
  bool has_image = false;          ///< two axes longer than 1
  std::string checksum;            ///< "ok", "wrong" or "absent"
};

/// All HDUs of a file, in the manner of astropy's fitsinfo. Throws as read_image.
std::vector<HduInfo> list_hdus(const std::string& name);

/// The table fitsinfo prints: No. Name Ver Type Cards Dimensions Format.
std::string hdu_table(const std::vector<HduInfo>& hdus);

}  // namespace cirrus::fits
