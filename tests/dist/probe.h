// Programs that tests start with several ranks: how they begin, and settings given to them as words.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/program.h"

namespace cirrus::test {

/// Runs `probe` on the words after the program's name, as Cirrus's own programs run: errors are told, ranks left in
/// order.
inline int run_probe(const char* name, int (*probe)(const Arguments&), int argc, char** argv) {
  std::vector<const char*> words{argv[0], "probe"};
  words.insert(words.end(), argv + 1, argv + argc);
  return run_program({name, "for tests", {{"probe", "for tests", probe}}, ""}, static_cast<int>(words.size()),
                     words.data());
}

/// KIND key=value...
class KeyValues {
public:
  explicit KeyValues(const std::vector<std::string>& words) : kind(words.at(0)) {
    for (std::size_t i = 1; i < words.size(); ++i)
      given_[words[i].substr(0, words[i].find('='))] = words[i].substr(words[i].find('=') + 1);
  }
  std::string text(const char* key, const char* otherwise) const {
    return given_.contains(key) ? given_.at(key) : otherwise;
  }
  double real(const char* key, double otherwise) const {
    return given_.contains(key) ? std::stod(given_.at(key)) : otherwise;
  }
  std::int64_t number(const char* key, std::int64_t otherwise) const {
    return given_.contains(key) ? std::stoll(given_.at(key)) : otherwise;
  }
  bool yes(const char* key, bool otherwise = false) const { return number(key, otherwise ? 1 : 0) != 0; }

  std::string kind;

private:
  std::map<std::string, std::string> given_;
};

}  // namespace cirrus::test
