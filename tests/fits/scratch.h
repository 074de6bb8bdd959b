// What the tests of fits/ share: a folder that vanishes, the folder of real files, and headers made from lines.
#pragma once

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/errors.h"
#include "fits/header.h"
#include "fits/wcs_check.h"
#include "tests/base/exit_code_of.h"

namespace cirrus::fits::testing {

/// A new empty folder, removed with all it holds.
class Scratch {
public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cirrus-fits-XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }
  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++count;
    return count;
  }

private:
  std::filesystem::path path_;
};

/// A FITS file made of header lines, any bytes in them, and bytes of data, padded to blocks.
inline void write_raw(const std::string& path, const std::string& header_lines, const std::string& data = "") {
  const auto pad = [](std::string& bytes, std::size_t block, char with) {
    bytes.resize((bytes.size() + block - 1) / block * block, with);
  };
  std::string bytes;
  std::istringstream lines(header_lines + "\nEND");
  for (std::string line; std::getline(lines, line);) {
    line.resize(80, ' ');
    bytes += line;
  }
  pad(bytes, 2880, ' ');
  bytes += data;
  pad(bytes, 2880, '\0');
  std::ofstream(path, std::ios::binary) << bytes;
}

/// The folder of real FITS files, or "" (with a sentence) where there is none.
inline std::string real_files() {
  const char* data = std::getenv("CIRRUS_TEST_DATA");
  if (data == nullptr || !std::filesystem::exists(std::string(data) + "/fits")) {
    BOOST_TEST_MESSAGE("skipped: CIRRUS_TEST_DATA does not name a folder with fits/");
    return "";
  }
  return std::string(data) + "/fits/";
}

/// Whether sky positions can be checked in this build (CIRRUS_WCSLIB); says so if not.
inline bool has_wcslib() {
  const PixelPoint origin;
  const auto sky =
      pixel_to_sky(Header::from_lines("NAXIS   =                    2\nCRPIX1  = 1.0"), std::span(&origin, 1));
  if (!sky.usable) BOOST_TEST_MESSAGE("skipped: " << sky.reason);
  return sky.usable;
}

/// A header for an image of 101 x 64 pixels (odd and even) with more lines.
inline Header with_size(const std::string& lines) {
  return Header::from_lines(
      "SIMPLE  =                    T\nBITPIX  =                  -32\nNAXIS   =                    2\n"
      "NAXIS1  =                  101\nNAXIS2  =                   64\n" +
      lines);
}

/// A tangential projection with the reference pixel outside the image, without its matrix; and a rotated matrix for it.
inline const std::string kTan =
    "CTYPE1  = 'RA---TAN'\nCTYPE2  = 'DEC--TAN'\nCRVAL1  = 83.6\nCRVAL2  = -5.4\nCRPIX1  = 41.25\nCRPIX2  = -17.5\n";
inline const std::string kCd = "CD1_1   = -0.0031\nCD1_2   = 0.0012\nCD2_1   = 0.0013\nCD2_2   = 0.0030\n";

}  // namespace cirrus::fits::testing
