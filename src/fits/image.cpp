// Choosing an HDU and reading its image; see image.h.
#include "fits/image.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "base/errors.h"
#include "fits/cfitsio_file.h"
#include "fits/scale.h"
#include "fits/wcs_keyword.h"

namespace cirrus::fits {
namespace {

struct Shape {
  bool image = false;
  int bitpix = 0;
  std::vector<std::int64_t> axes;
  int longer_than_one() const {
    return static_cast<int>(std::count_if(axes.begin(), axes.end(), [](std::int64_t n) { return n > 1; }));
  }
  bool empty() const {
    return axes.empty() || std::any_of(axes.begin(), axes.end(), [](std::int64_t n) { return n < 1; });
  }
};

Shape current_shape(fitsfile* file) {
  int status = 0, type = 0, naxis = 0;
  Shape shape;
  fits_get_hdu_type(file, &type, &status);
  if (type != IMAGE_HDU && fits_is_compressed_image(file, &status) == 0) return shape;
  shape.image = true;
  fits_get_img_dim(file, &naxis, &status);
  fits_get_img_type(file, &shape.bitpix, &status);
  std::vector<LONGLONG> axes(static_cast<std::size_t>(std::max(naxis, 1)));
  fits_get_img_sizell(file, naxis, axes.data(), &status);
  if (status != 0 || naxis < 0) return {};
  shape.axes.assign(axes.begin(), axes.begin() + naxis);
  return shape;
}

int hdu_count(fitsfile* file) {
  int count = 0, status = 0;
  fits_get_num_hdus(file, &count, &status);
  return count;
}

bool move_to(fitsfile* file, int number) {
  int status = 0;
  fits_movabs_hdu(file, number + 1, nullptr, &status);
  fits_clear_errmsg();
  return status == 0;
}

std::string read_string(fitsfile* file, const char* key) {
  char value[FLEN_VALUE] = "";
  int status = 0;
  fits_read_key(file, TSTRING, key, value, nullptr, &status);
  fits_clear_errmsg();
  return status == 0 ? value : "";
}

/// "0 PRIMARY (no data), 1 SCI (62 x 44), 2 Archive Map Table (HEALPix table)" for error messages.
std::string describe_hdus(fitsfile* file, bool* healpix) {
  std::string text;
  for (int number = 0; number < hdu_count(file) && move_to(file, number); ++number) {
    const Shape shape = current_shape(file);
    std::string name = read_string(file, "EXTNAME");
    if (name.empty()) name = number == 0 ? "PRIMARY" : "(unnamed)";
    std::string what;
    for (const std::int64_t n : shape.axes) what += (what.empty() ? "" : " x ") + std::to_string(n);
    if (!shape.image) what = "table";
    if (shape.image && shape.axes.empty()) what = "no data";
    if (read_string(file, "PIXTYPE") == "HEALPIX") {
      what = "HEALPix table";
      if (healpix != nullptr) *healpix = true;
    }
    text += (text.empty() ? "" : ", ") + std::to_string(number) + " " + name + " (" + what + ")";
  }
  return text;
}

[[noreturn]] void throw_no_image(fitsfile* file, const std::string& what) {
  bool healpix = false;
  const std::string hdus = describe_hdus(file, &healpix);
  throw Error(
      ExitCode::bad_data, what + "; its HDUs: " + hdus,
      healpix ? "a HEALPix map: project it to a flat map first, e.g. with reproject_from_healpix of Python's reproject"
              : "choose another with --hdu");
}

/// Moves to the HDU that `hdu` names: a number, an EXTNAME, or EXTNAME,EXTVER.
void move_to_named(fitsfile* file, const std::string& path, const std::string& hdu) {
  const bool number = hdu.find_first_not_of("0123456789") == std::string::npos;
  bool found = false;
  if (number) {
    found = hdu.size() < 6 && std::stoi(hdu) < hdu_count(file) && move_to(file, std::stoi(hdu));
  } else {
    std::string name = hdu;
    int version = 0, status = 0;
    const auto comma = hdu.rfind(',');
    if (comma != std::string::npos) {
      const std::string digits = hdu.substr(comma + 1);
      if (!digits.empty() && digits.size() < 6 && digits.find_first_not_of("0123456789") == std::string::npos) {
        version = std::stoi(digits);
        name.resize(comma);
      }
    }
    fits_movnam_hdu(file, ANY_HDU, name.data(), version, &status);
    fits_clear_errmsg();
    found = status == 0;
  }
  if (!found) {
    throw Error(ExitCode::usage, path + " has no HDU '" + hdu + "'; its HDUs: " + describe_hdus(file, nullptr),
                "choose one of them with --hdu");
  }
}

/// Moves to the HDU to read and returns its shape, which is an image's.
Shape choose_hdu(fitsfile* file, const std::string& name, const std::string& hdu, bool chosen) {
  if (chosen && !hdu.empty()) {
    throw Error(ExitCode::usage, "the HDU is given twice: in " + name + " and as --hdu " + hdu, "give it once");
  }
  if (!hdu.empty()) move_to_named(file, name, hdu);
  if (!hdu.empty() || chosen) {
    int number = 0;
    fits_get_hdu_num(file, &number);
    const Shape shape = current_shape(file);
    if (!shape.image || shape.empty() || shape.axes.size() < 2) {
      throw_no_image(file, "HDU " + std::to_string(number - 1) + " of " + name + " is not a 2-D image");
    }
    return shape;
  }
  int small = -1;
  for (int number = 0; number < hdu_count(file) && move_to(file, number); ++number) {
    const Shape shape = current_shape(file);
    if (!shape.image || shape.empty() || shape.axes.size() < 2) continue;
    if (shape.longer_than_one() >= 2) return shape;
    if (small < 0) small = number;  // one row or one pixel: only if there is nothing better
  }
  if (small < 0 || !move_to(file, small)) throw_no_image(file, name + " has no 2-D image");
  return current_shape(file);
}

/// Describes plane `plane` of a cube as that plane: its axis gets length 1 and its CRPIX moves.
void select_plane(Header& header, const Image& image) {
  std::int64_t rest = image.plane - 1;
  for (std::size_t axis = static_cast<std::size_t>(image.axis_y); axis < image.axes.size(); ++axis) {
    const std::int64_t index = rest % image.axes[axis];
    rest /= image.axes[axis];
    const int number = static_cast<int>(axis) + 1;
    if (image.axes[axis] == 1) continue;
    header.set("NAXIS" + std::to_string(number), std::int64_t{1});
    if (index == 0) continue;
    for (const char alternate : wcs_alternates(header)) {
      bool found = false;
      for (std::size_t at = 0; at < header.size(); ++at) {
        const std::string key = header.cards()[at].key();
        const auto word = parse_wcs_keyword(key);
        if (!word || word->family != "CRPIX" || word->i != number || word->alternate != alternate) continue;
        header.set_at(at, header.cards()[at].number().value_or(0.0) - static_cast<double>(index));
        found = true;
      }
      const std::string letter = alternate == ' ' ? "" : std::string(1, alternate);
      const std::string key = "CRPIX" + std::to_string(number) + letter;
      if (!found) header.insert_after("CRPIX2" + letter, key, -static_cast<double>(index));
    }
  }
}

/// BSCALE, BZERO and BLANK that CFITSIO passes over without a word though they stand there.
void require_sane_scaling(const Header& header, int bitpix, const std::string& where) {
  for (const char* key : {"BSCALE", "BZERO", "BLANK"}) {
    const auto at = header.find(key);
    const bool blank = std::string_view(key) == "BLANK";
    if (!at || (blank && bitpix < 0)) continue;  // for floats BLANK has no meaning
    const Card& card = header.cards()[*at];
    const bool whole = card.value_text().find_first_not_of("+-0123456789") == std::string::npos;
    if (blank ? card.integer() && whole : card.number() && (key[1] != 'S' || *card.number() != 0.0)) continue;
    throw Error(ExitCode::bad_data,
                where + ": " + key + " = " + card.value_text() + " makes no sense: the pixels' values are unknown",
                blank ? "write a whole number, or remove the card" : "correct the card");
  }
}

void find_image_axes(Image& image) {
  double total = 1.0;
  for (const std::int64_t n : image.axes) total *= static_cast<double>(n);
  if (total > 4e18) throw Error(ExitCode::bad_data, "the header announces an impossible number of pixels");
  image.axis_x = image.axis_y = 0;
  for (std::size_t k = 0; k < image.axes.size(); ++k) {
    if (image.axes[k] <= 1) continue;
    if (image.axis_x == 0) {
      image.axis_x = static_cast<int>(k) + 1;
    } else if (image.axis_y == 0) {
      image.axis_y = static_cast<int>(k) + 1;
    }
  }
  if (image.axis_y == 0) image.axis_x = 1, image.axis_y = 2;
  image.width = image.axes[static_cast<std::size_t>(image.axis_x) - 1];
  image.height = image.axes[static_cast<std::size_t>(image.axis_y) - 1];
  image.planes = 1;
  for (std::size_t k = static_cast<std::size_t>(image.axis_y); k < image.axes.size(); ++k)
    image.planes *= image.axes[k];
}

/// Reads pixels first..first+count-1 of the HDU (1-based), or the whole plane of a compressed image, for which CFITSIO
/// has no such reading beyond three axes.
int read_range(fitsfile* file, const Image& image, std::int64_t first, std::int64_t count, double* pixels) {
  double null = std::numeric_limits<double>::quiet_NaN();
  int any = 0, status = 0;
  if (fits_is_compressed_image(file, &status) == 0) {
    fits_read_img(file, TDOUBLE, first, count, &null, pixels, &any, &status);
    return status;
  }
  std::vector<long> low(image.axes.size()), high(image.axes.size()), step(image.axes.size(), 1);
  std::int64_t from = first - 1, to = first + count - 2;
  for (std::size_t k = 0; k < low.size(); ++k) {
    low[k] = from % image.axes[k] + 1;
    high[k] = to % image.axes[k] + 1;
    from /= image.axes[k];
    to /= image.axes[k];
  }
  fits_read_subset(file, TDOUBLE, low.data(), high.data(), step.data(), &null, pixels, &any, &status);
  return status;
}

void read_pixels(fitsfile* file, Image& image, const std::string& where) {
  const std::int64_t count = image.width * image.height;
  const std::int64_t first = (image.plane - 1) * count + 1;
  double last = 0.0;  // a truncated file shows here, before its header can make us allocate
  int status = read_range(file, image, first + count - 1, 1, &last);
  if (status == 0) {
    try {
      image.pixels.resize(static_cast<std::size_t>(count));
    } catch (const std::exception&) {
      throw Error(ExitCode::internal, where + ": not enough memory for " + std::to_string(count) + " pixels",
                  "read a section, map.fits[1:4096,1:4096]");
    }
    status = read_range(file, image, first, count, image.pixels.data());
  }
  if (status != 0) {
    throw Error(ExitCode::bad_data,
                where + ": the pixels cannot be read, the file is truncated or damaged (CFITSIO: " +
                    cfitsio_message(status) + ")",
                "get a complete copy; fitsverify says more");
  }
  for (double& value : image.pixels) {
    if (!std::isfinite(value)) value = std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace

Image read_image(const std::string& name, const ReadOptions& options) {
  bool chosen = false;
  const CfitsioFile file = CfitsioFile::open(name, &chosen);
  const Shape shape = choose_hdu(file, name, options.hdu, chosen);
  Image image;
  image.path = name;
  image.bitpix = shape.bitpix;
  image.axes = shape.axes;
  int number = 0;
  image.hdu_number = fits_get_hdu_num(file, &number) - 1;
  image.header = read_header(file, &image.warnings);
  image.hdu_name = image.header.get<std::string>("EXTNAME").value_or("");
  const std::string where = name + ", HDU " + std::to_string(image.hdu_number);
  require_sane_scaling(image.header, image.bitpix, where);
  find_image_axes(image);
  if (options.plane < 0 || options.plane > image.planes) {
    throw Error(ExitCode::usage,
                where + " has " + std::to_string(image.planes) + " plane(s), not " + std::to_string(options.plane),
                "give --plane 1 to " + std::to_string(image.planes));
  }
  if (image.planes > 1 && options.plane == 0) {
    throw Error(ExitCode::bad_data, where + " is a cube of " + std::to_string(image.planes) + " planes",
                "give --plane N (enhance and degrade also take --all-planes)");
  }
  image.plane = std::max<std::int64_t>(options.plane, 1);
  if (image.planes > 1 && !options.whole_cube) select_plane(image.header, image);
  read_pixels(file, image, where);
  if (options.verify_checksum) {
    int data = 0, hdu = 0, status = 0;
    fits_verify_chksum(file, &data, &hdu, &status);
    fits_clear_errmsg();
    if (status == 0 && (data < 0 || hdu < 0)) {
      image.warnings.push_back(where + ": " + (data < 0 ? "DATASUM" : "CHECKSUM") +
                               " is wrong: the file was changed after it was written");
    }
  }
  if (image.hdu_number > 0 && !image.header.has("BUNIT") && move_to(file, 0)) {
    const std::string unit = read_string(file, "BUNIT");
    if (!unit.empty()) {
      image.warnings.push_back("BUNIT = '" + unit + "' stands in the primary header only and was not used");
    }
  }
  return image;
}

bool is_blank(const Image& image) {
  return std::none_of(image.pixels.begin(), image.pixels.end(), [](double v) { return std::isfinite(v); });
}

std::int64_t count_planes(const std::string& name, const std::string& hdu) {
  bool chosen = false;
  const CfitsioFile file = CfitsioFile::open(name, &chosen);
  Image image;
  image.axes = choose_hdu(file, name, hdu, chosen).axes;
  find_image_axes(image);
  return image.planes;
}

std::vector<std::int64_t> output_axes(const Image& image, std::int64_t width, std::int64_t height, bool all_planes) {
  if (image.axes.size() < 2) return {width, height};
  std::vector<std::int64_t> axes = all_planes ? image.axes : std::vector<std::int64_t>(image.axes.size(), 1);
  axes[static_cast<std::size_t>(image.axis_x) - 1] = width;
  axes[static_cast<std::size_t>(image.axis_y) - 1] = height;
  return axes;
}

}  // namespace cirrus::fits
