// What the tests of fits/ share: a folder that vanishes, the folder of real files, and headers made from lines.
#pragma once

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/errors.h"
#include "fits/header.h"

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

/// A FITS file made of a header and bytes of data, padded to blocks.
inline void write_raw(const std::string& path, const std::string& header_lines, std::string data = "") {
  data.resize((data.size() + 2879) / 2880 * 2880);
  std::ofstream(path, std::ios::binary) << Header::from_lines(header_lines).text() << data;
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

/// The exit code of the Error that `action` throws, or ok; what it says goes to `message`.
template <typename Action>
ExitCode exit_code_of(Action action, std::string* message = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  return ExitCode::ok;
}

}  // namespace cirrus::fits::testing

namespace cirrus {
inline std::ostream& operator<<(std::ostream& out, ExitCode code) { return out << static_cast<int>(code); }
}  // namespace cirrus
