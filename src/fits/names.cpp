// Output names from input names; see names.h.
#include "fits/names.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace cirrus::fits {
namespace {

bool strip_ending(std::string& name, std::string_view ending) {
  if (name.size() <= ending.size()) return false;
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  if (!std::equal(ending.begin(), ending.end(), name.end() - static_cast<std::ptrdiff_t>(ending.size()),
                  [&](char b, char a) { return same(a, b); })) {
    return false;
  }
  name.resize(name.size() - ending.size());
  return true;
}

}  // namespace

bool exists_literally(const std::string& name) {
  std::error_code error;
  return !name.empty() && std::filesystem::exists(name, error);
}

std::string file_path(const std::string& name) {
  if (exists_literally(name)) return name;
  std::string path = name;
  if (path.starts_with('!')) {
    path.erase(0, 1);
    if (exists_literally(path)) return path;
  }
  // [extension] and [section] groups, then (output name), then +n: what CFITSIO reads from the right.
  while (path.ends_with(']') && path.rfind('[') != std::string::npos && !exists_literally(path)) {
    path.resize(path.rfind('['));
  }
  if (path.ends_with(')') && path.rfind('(') != std::string::npos && !exists_literally(path)) {
    path.resize(path.rfind('('));
  }
  const auto plus = path.rfind('+');
  if (plus != std::string::npos && plus + 1 < path.size() && path.size() - plus <= 6 && !exists_literally(path) &&
      std::all_of(path.begin() + static_cast<std::ptrdiff_t>(plus) + 1, path.end(),
                  [](unsigned char c) { return std::isdigit(c) != 0; })) {
    path.resize(plus);
  }
  if (path.starts_with("file://")) path.erase(0, 7);
  return path;
}

std::string output_name(const std::string& input, std::string_view suffix, std::string_view extension) {
  const std::string path = file_path(input);
  std::string base = path == "-" ? "stdin" : std::filesystem::path(path).filename().string();
  for (const char* ending : {".gz", ".bz2", ".fz"}) {
    if (strip_ending(base, ending)) break;
  }
  for (const char* ending : {".fits", ".fit", ".fts"}) {
    if (strip_ending(base, ending)) break;
  }
  return base + std::string(suffix) + std::string(extension);
}

}  // namespace cirrus::fits
