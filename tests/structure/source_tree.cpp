// Reading the source tree and holding it against the rules; see source_tree.h.
#include "tests/structure/source_tree.h"

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "tests/base/scratch_folder.h"

namespace cirrus::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongest = 400;  // lines

struct SourceFile {
  std::string path;    ///< relative to the root, with forward slashes
  std::string folder;  ///< "sky" of src/sky/beam.h; "" outside src/
  std::vector<std::string> lines;
  std::vector<std::string> code;  ///< the same lines without comments and strings
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool is_source(const fs::path& path) {
  static const std::set<std::string> kinds = {".cpp", ".h", ".cu", ".cuh", ".in"};
  return kinds.contains(path.extension().string());
}

std::vector<SourceFile> read_tree(const fs::path& root) {
  std::vector<SourceFile> files;
  for (const char* part : {"src", "apps", "data_tools", "tests"}) {
    if (!fs::is_directory(root / part)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / part)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      SourceFile file;
      const fs::path relative = fs::relative(entry.path(), root);
      file.path = relative.generic_string();
      if (std::string(part) == "src" && std::distance(relative.begin(), relative.end()) > 2)
        file.folder = std::next(relative.begin())->string();
      const std::string text = contents(entry.path());
      file.lines = lines_of(text);
      file.code = lines_of(code_only(text));
      files.push_back(std::move(file));
    }
  }
  std::sort(files.begin(), files.end(), [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

/// A foreign name, and the only files that may use it in their code (comments and strings may always speak of it).
struct Territory {
  const char* what;
  std::regex name;
  std::regex allowed;  ///< of paths
};
const std::vector<Territory>& territories() {
  static const std::vector<Territory> all = {
      {"CUDA or Gaudi", std::regex("cuda|hpu|habana", std::regex::icase),
       std::regex("src/device/.*|src/kernels/[^/]+/cuda[^/]*|src/dist/(nccl|hccl)[^/]*|tests/(device|gpu)/.*")},
      {"NCCL or HCCL", std::regex("nccl|hccl", std::regex::icase), std::regex("src/dist/.*|tests/(dist|device)/.*")},
      {"MPI", std::regex("<mpi\\.h>|\\bMPI_\\w+"), std::regex("src/dist/.*|tests/mpi/.*")},
      {"CFITSIO", std::regex("<fitsio2?\\.h>"), std::regex("src/fits/.*|tests/.*")},
      {"WCSLIB", std::regex("<wcslib/|<wcs(hdr|fix)?\\.h>"), std::regex("src/fits/.*|tests/.*")},
      {"chealpix", std::regex("<chealpix\\.h>"), std::regex("src/sky/.*|tests/.*")},
      {"torch", std::regex("<(torch|ATen|c10)/|\\bat::"), std::regex("(?!src/base/|src/fits/).*")},
  };
  return all;
}

/// Whether the line that starts at `begin` is an #include.
bool is_include(const std::string& text, std::size_t begin) {
  const std::size_t hash = text.find_first_not_of(" \t", begin);
  if (hash == std::string::npos || text[hash] != '#') return false;
  const std::size_t word = text.find_first_not_of(" \t", hash + 1);
  return word != std::string::npos && text.compare(word, 7, "include") == 0;
}

class Judge {
public:
  Judge(const fs::path& root, std::vector<std::string> order) : root_(root), order_(std::move(order)) {}

  void judge(const SourceFile& file) {
    if (file.lines.empty() || !file.lines.front().starts_with("//"))
      say(file, 1, "does not open with a comment that says what lives here");
    if (file.lines.size() > kLongest)
      say(file, file.lines.size(), "is longer than " + std::to_string(kLongest) + " lines");
    for (std::size_t i = 0; i < file.code.size(); ++i) {
      const std::string& line = file.code[i];
      static const std::regex include("\\s*#\\s*include\\s*\"([^\"]+)\".*");
      std::smatch match;
      if (std::regex_match(line, match, include)) judge_include(file, i + 1, match[1]);
      for (const Territory& t : territories())
        if (std::regex_search(line, t.name) && !std::regex_match(file.path, t.allowed))
          say(file, i + 1, std::string("names ") + t.what + " outside its folders: " + line);
    }
  }

  void judge_folders() {
    for (const std::string& folder : order_)
      if (!fs::is_directory(root_ / "src" / folder))
        breaches_.push_back("src/README.md: lists " + folder + "/, which does not exist");
    for (const auto& entry : fs::directory_iterator(root_ / "src"))
      if (entry.is_directory() && rank(entry.path().filename().string()) == order_.size())
        breaches_.push_back("src/README.md: does not list " + entry.path().filename().string() + "/");
  }

  std::vector<std::string> take() { return std::move(breaches_); }

private:
  void say(const SourceFile& file, std::size_t line, const std::string& what) {
    breaches_.push_back(file.path + ":" + std::to_string(line) + ": " + what);
  }

  std::size_t rank(const std::string& folder) const {
    return static_cast<std::size_t>(std::find(order_.begin(), order_.end(), folder) - order_.begin());
  }

  void judge_include(const SourceFile& file, std::size_t line, const std::string& path) {
    const fs::path in_source = root_ / "src" / path;
    const bool found = fs::exists(in_source) || fs::exists(in_source.string() + ".in") || fs::exists(root_ / path) ||
                       fs::exists(root_ / "tests" / path) ||
                       (file.folder.empty() && fs::exists((root_ / file.path).parent_path() / path));
    if (!found) return say(file, line, "includes \"" + path + "\", which is not a path from src/ or the root");
    if (file.folder.empty()) return;
    const std::string used = path.substr(0, path.find('/'));
    const std::size_t own = rank(file.folder), other = rank(used);
    if (other == order_.size()) return say(file, line, "includes \"" + path + "\", which is outside the library");
    if (other > own)
      say(file, line, "includes \"" + path + "\": " + used + "/ stands below " + file.folder + "/ in src/README.md");
    // These two build without LibTorch, so that sanitizers and fuzzers reach them.
    if (file.folder == "fits" && used != "fits" && used != "base")
      say(file, line, "includes \"" + path + "\": fits/ may use base/ alone");
  }

  fs::path root_;
  std::vector<std::string> order_, breaches_;
};

}  // namespace

std::vector<std::string> folder_order(const fs::path& readme) {
  std::vector<std::string> order;
  const std::regex row("\\| `([a-z_]+)/` \\|.*");
  for (const std::string& line : lines_of(contents(readme))) {
    std::smatch match;
    if (std::regex_match(line, match, row)) order.push_back(match[1]);
  }
  return order;
}

std::vector<std::string> breaches(const fs::path& root) {
  Judge judge(root, folder_order(root / "src" / "README.md"));
  judge.judge_folders();
  for (const SourceFile& file : read_tree(root)) judge.judge(file);
  return judge.take();
}

std::string code_only(const std::string& text) {
  std::string out = text;
  enum class In { code, line_comment, comment, string, character, raw } in = In::code;
  bool include_line = false;
  std::string raw_end;
  const auto at = [&](std::size_t i, std::string_view part) { return text.compare(i, part.size(), part) == 0; };
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      if (in == In::line_comment) in = In::code;
      line_start = i + 1;
      include_line = false;
      continue;
    }
    if (i == line_start) include_line = is_include(text, i);
    switch (in) {
      case In::code:
        if (include_line && !at(i, "//")) break;
        if (at(i, "//")) {
          in = In::line_comment;
        } else if (at(i, "/*")) {
          in = In::comment;
        } else if (at(i, "R\"")) {
          in = In::raw;
          raw_end = ")" + text.substr(i + 2, text.find('(', i) - i - 2) + "\"";
        } else if (c == '"') {
          in = In::string;
          out[i] = ' ';
          continue;
        } else if (c == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0)) {
          in = In::character;  // after a digit it separates thousands
          out[i] = ' ';
          continue;
        }
        break;
      case In::line_comment:
        break;
      case In::comment:
        if (at(i, "*/")) in = In::code, out[i] = out[i + 1] = ' ', ++i;
        break;
      case In::string:
      case In::character:
        if (c == '\\') {
          out[i] = ' ';
          if (++i < text.size() && text[i] == '\n') continue;
        } else if (c == (in == In::string ? '"' : '\'')) {
          in = In::code;
          out[i] = ' ';
          continue;
        }
        break;
      case In::raw:
        if (at(i, raw_end)) {
          for (std::size_t k = 0; k < raw_end.size(); ++k) out[i + k] = ' ';
          i += raw_end.size() - 1;
          in = In::code;
          continue;
        }
        break;
    }
    if (in != In::code && i < out.size()) out[i] = ' ';
  }
  return out;
}

}  // namespace cirrus::test
