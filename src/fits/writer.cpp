// Writing FITS files through a temporary name; see writer.h.
#include "fits/writer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/version.h"
#include "fits/cfitsio_file.h"
#include "fits/names.h"

namespace cirrus::fits {
namespace {

void require(int status, const std::string& target) {
  if (status == 0) return;
  throw Error(ExitCode::io, "cannot write " + target + " (CFITSIO: " + cfitsio_message(status) + ")",
              "check the space left on the disk and the quota");
}

int bitpix_of(const Pixels& pixels) {
  if (std::holds_alternative<std::span<const float>>(pixels)) return FLOAT_IMG;
  return std::holds_alternative<std::span<const double>>(pixels) ? DOUBLE_IMG : BYTE_IMG;
}

/// Smallest and largest finite pixel.
std::optional<std::array<double, 2>> range_of(const Pixels& pixels) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::visit(
      [&](const auto& span) {
        for (const auto raw : span) {
          const double value = static_cast<double>(raw);
          if (!std::isfinite(value)) continue;
          low = std::min(low, value);
          high = std::max(high, value);
        }
      },
      pixels);
  if (low > high) return std::nullopt;
  return std::array<double, 2>{low, high};
}

/// The cards that go into the file, in the input's order, without those that the file itself determines.
Header file_header(const OutputHdu& hdu, bool primary) {
  Header header;
  if (!hdu.name.empty() && !hdu.header.has("EXTNAME")) header.set("EXTNAME", hdu.name);
  for (const Card& card : hdu.header.cards()) {
    const std::string key = card.key();
    const bool hierarch = card.text().starts_with("HIERARCH");
    if (!hierarch && (is_structural(key) || is_storage(key))) continue;
    if (primary && (key == "INHERIT" || key == "EXTLEVEL")) continue;  // for extensions only
    header.append(card);
  }
  if (!hdu.name.empty()) header.set("EXTNAME", hdu.name);
  const auto range = range_of(hdu.pixels);
  for (const auto& [key, index] : {std::pair{"DATAMIN", 0u}, std::pair{"DATAMAX", 1u}}) {
    if (!header.has(key)) continue;
    if (range) {
      header.set(key, (*range)[index]);
    } else {
      header.erase(key);
    }
  }
  header.set("DATE", file_date(), "date this file was written (UTC)");
  header.set("CREATOR", std::string("Cirrus ") + kVersion, "program that wrote this file");
  if (header.has("CONTINUE") && !header.has("LONGSTRN")) {
    header.set("LONGSTRN", std::string("OGIP 1.0"), "strings may continue on CONTINUE cards");
  }
  return header;
}

/// NaN or infinity as a value, which FITS has no way to write but some programs do.
bool is_no_number(const Card& card) {
  std::string value = card.value_text();
  if (!value.empty() && (value[0] == '-' || value[0] == '+')) value.erase(0, 1);
  for (char& c : value) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return value == "NAN" || value == "INF" || value == "INFINITY";
}

void write_cards(fitsfile* file, const Header& header, int* status) {
  for (const Card& card : header.cards()) {
    const bool forbidden = is_no_number(card);
    if (!forbidden) fits_write_record(file, card.text().c_str(), status);
    if (forbidden || *status == BAD_KEYCHAR) {  // a keyword or value that FITS forbids: its text survives
      *status = 0;
      fits_clear_errmsg();
      fits_write_comment(file, card.text().c_str(), status);
    }
  }
}

/// CHECKSUM and DATASUM at the end of the header. CFITSIO's own fits_write_chksum puts the time of day into their
/// comments, which would make equal runs differ.
void write_checksums(fitsfile* file, int* status) {
  unsigned long data = 0, total = 0;
  std::array<char, 17> zeros{};
  std::fill_n(zeros.begin(), 16, '0');
  std::array<char, 17> code{};
  fits_write_key(file, TSTRING, "CHECKSUM", zeros.data(), "HDU checksum", status);
  fits_write_key(file, TSTRING, "DATASUM", code.data(), "data unit checksum", status);
  fits_set_hdustruc(file, status);
  fits_get_chksum(file, &data, &total, status);
  std::string sum = std::to_string(data);
  fits_modify_key_str(file, "DATASUM", sum.c_str(), "data unit checksum", status);
  fits_get_chksum(file, &data, &total, status);
  fits_encode_chksum(total, 1, code.data());
  fits_modify_key_str(file, "CHECKSUM", code.data(), "HDU checksum", status);
}

void write_hdu(fitsfile* file, const OutputHdu& hdu, bool first, bool compress, int* status) {
  std::vector<LONGLONG> axes(hdu.axes.begin(), hdu.axes.end());
  if (compress) {
    fits_set_compression_type(file, GZIP_2, status);
    fits_set_quantize_level(file, 0.0F, status);  // lossless
  }
  fits_create_imgll(file, bitpix_of(hdu.pixels), static_cast<int>(axes.size()), axes.data(), status);
  int tries = 0;  // the two COMMENT cards CFITSIO adds: an input has its own, and two more would come with every pass
  while (first && *status == 0 && tries++ < 2) {
    fits_delete_key(file, "COMMENT", status);
    if (*status == KEY_NO_EXIST) {
      *status = 0;
      fits_clear_errmsg();
    }
  }
  write_cards(file, file_header(hdu, first && !compress), status);
  std::visit(
      [&](const auto& span) {
        using T = std::remove_cvref_t<decltype(span[0])>;
        constexpr int kType = std::is_same_v<T, float> ? TFLOAT : std::is_same_v<T, double> ? TDOUBLE : TBYTE;
        T* data = const_cast<T*>(span.data());
        if (compress) {  // fits_write_img refuses compressed images of more than three axes
          std::vector<long> from(hdu.axes.size(), 1), to(hdu.axes.begin(), hdu.axes.end());
          fits_write_subset(file, kType, from.data(), to.data(), data, status);
        } else {
          fits_write_img(file, kType, 1, static_cast<LONGLONG>(span.size()), data, status);
        }
      },
      hdu.pixels);
  if (compress) {  // CFITSIO notes the longest tile in TFORM1 when it leaves the HDU: before the checksum
    int number = 0;
    fits_get_hdu_num(file, &number);
    fits_movabs_hdu(file, 1, nullptr, status);
    fits_movabs_hdu(file, number, nullptr, status);
  }
  write_checksums(file, status);
}

void require_shape(const OutputHdu& hdu) {
  std::int64_t count = hdu.axes.empty() ? 0 : 1;
  for (const std::int64_t n : hdu.axes) count *= n;
  const auto size = std::visit([](const auto& span) { return static_cast<std::int64_t>(span.size()); }, hdu.pixels);
  if (count != size || size < 1) {
    throw Error(ExitCode::internal,
                "HDU '" + hdu.name + "' has " + std::to_string(size) + " pixels and axes for " + std::to_string(count));
  }
}

::cirrus::OutputName checked(const std::string& name, const WriteOptions& options) {
  const auto output = ::cirrus::output_name(name, options.overwrite);
  const std::string path = output.path.string();
  if (path == "-" || path.ends_with(']') || path.ends_with(')') || path.find("://") != std::string::npos) {
    throw Error(ExitCode::usage, "the output name '" + path + "' is in CFITSIO's extended syntax",
                "give a plain file name; --compress writes compressed tiles, .gz a compressed file");
  }
  if (options.compress && path.ends_with(".gz")) {
    throw Error(ExitCode::usage, "compressed tiles in a compressed file: " + path, "drop --compress or the .gz");
  }
  std::vector<std::filesystem::path> inputs;
  for (const std::string& input : options.inputs) inputs.emplace_back(file_path(input));
  require_writable_output(output.path, output.overwrite, inputs);
  return output;
}

}  // namespace

std::string check_output(const std::string& name, const WriteOptions& options) {
  return checked(name, options).path.string();
}

std::string write_images(const std::string& name, std::span<const OutputHdu> hdus, const WriteOptions& options) {
  if (hdus.empty()) throw Error(ExitCode::internal, "a FITS file without an image was to be written: " + name);
  for (const OutputHdu& hdu : hdus) require_shape(hdu);
  const auto output = checked(name, options);
  const std::string target = output.path.string();
  AtomicFile atomic(output.path, output.overwrite);
  CfitsioFile file = CfitsioFile::create(atomic.temporary().string());
  int status = 0;
  if (options.compress) {  // a primary HDU cannot be compressed: CFITSIO would make this one silently
    fits_create_img(file, BYTE_IMG, 0, nullptr, &status);
    Header header;
    header.set("DATE", file_date(), "date this file was written (UTC)");
    header.set("CREATOR", std::string("Cirrus ") + kVersion, "program that wrote this file");
    write_cards(file, header, &status);
    write_checksums(file, &status);
  }
  for (std::size_t k = 0; k < hdus.size(); ++k) {
    if (options.poll) options.poll();
    write_hdu(file, hdus[k], k == 0, options.compress, &status);
    require(status, target);
  }
  if (options.poll) options.poll();
  require(file.close(), target);
  atomic.commit();
  return target;
}

}  // namespace cirrus::fits
