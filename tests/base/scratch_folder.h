// A temporary folder that lives as long as a test, environment variables set for a test, and what a function prints.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>

namespace cirrus::test {

class ScratchFolder {
public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "cirrus-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  std::size_t count() const {
    std::size_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) n += entry.path().empty() ? 0u : 1u;
    return n;
  }

private:
  std::filesystem::path path_;
};

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void put(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Sets a variable (nullptr: removes it) and restores it.
class Environment {
public:
  Environment(std::string name, const char* value) : name_(std::move(name)) {
    if (const char* before = getenv(name_.c_str())) before_ = before;
    value == nullptr ? unsetenv(name_.c_str()) : setenv(name_.c_str(), value, 1);
  }
  ~Environment() { before_ ? setenv(name_.c_str(), before_->c_str(), 1) : unsetenv(name_.c_str()); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

private:
  std::string name_;
  std::optional<std::string> before_;
};

/// What `action` writes to the file descriptor (1 or 2).
inline std::string printed(int descriptor, const std::function<void()>& action) {
  const ScratchFolder folder;
  std::fflush(nullptr);
  const int saved = dup(descriptor);
  std::FILE* file = std::fopen((folder / "out").c_str(), "w");
  dup2(fileno(file), descriptor);
  try {
    action();
  } catch (...) {
    std::fflush(nullptr);
    dup2(saved, descriptor);
    throw;
  }
  std::fflush(nullptr);
  dup2(saved, descriptor);
  close(saved);
  std::fclose(file);
  return contents(folder / "out");
}

}  // namespace cirrus::test
