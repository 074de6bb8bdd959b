// The rules that the source tree keeps, and where it breaks them: who may include whom, where foreign libraries may be
// named, how long a file may be. Files are read as text; nothing is compiled.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cirrus::test {

/// The folders of src/ in the order of src/README.md: the rows of its table that begin with "| `folder/` |".
std::vector<std::string> folder_order(const std::filesystem::path& readme);

/// One sentence for each breach ("src/sky/beam.h:7: includes ..."), sorted by file; empty if there is none. `root`: the
/// source tree.
std::vector<std::string> breaches(const std::filesystem::path& root);

/// C++ text without comments and string literals: each is replaced by spaces, line breaks stay. Paths in #include lines
/// are kept.
std::string code_only(const std::string& text);

}  // namespace cirrus::test
