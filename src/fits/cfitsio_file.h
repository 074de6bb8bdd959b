// A CFITSIO handle that closes itself, and CFITSIO's errors as ours. Only the .cpp files of fits/ include this.
#pragma once

#include <fitsio.h>

#include <string>
#include <vector>

#include "base/errors.h"
#include "fits/header.h"

namespace cirrus::fits {

/// An open FITS file.
class CfitsioFile {
public:
  CfitsioFile() = default;
  CfitsioFile(CfitsioFile&& other) noexcept : file_(other.file_) { other.file_ = nullptr; }
  CfitsioFile(const CfitsioFile&) = delete;
  CfitsioFile& operator=(const CfitsioFile&) = delete;
  explicit CfitsioFile(fitsfile* file) noexcept : file_(file) {}
  ~CfitsioFile();

  /// Opens for reading: an existing file of exactly this name, else CFITSIO's extended syntax. `chosen_hdu` tells
  /// whether the name itself chose the HDU. Throws no_input, bad_data, usage (no such HDU).
  static CfitsioFile open(const std::string& name, bool* chosen_hdu = nullptr);
  /// Creates a file; `path` is literal unless it ends in .gz, which CFITSIO compresses. Throws cannot_create.
  static CfitsioFile create(const std::string& path);
  /// Closes and returns CFITSIO's status: the last blocks are written here.
  int close();

  operator fitsfile*() const noexcept { return file_; }  // for CFITSIO's calls

private:
  fitsfile* file_ = nullptr;
};

/// CFITSIO's own words for a status, its message stack emptied.
std::string cfitsio_message(int status);

/// Cards of the current HDU; of a tile-compressed image, those of the image it holds.
Header read_header(fitsfile* file, std::vector<std::string>* warnings);

}  // namespace cirrus::fits
