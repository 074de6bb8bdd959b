// The known name nearest to a mistyped one, for "did you mean" in every message about flags, keys, verbs and choices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cirrus {

/// Edits (insert, delete, replace, swap of neighbours) that turn a into b: optimal string alignment distance.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the fewest edits; a candidate that starts with `word` counts as one edit away. "" if there are
/// none.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace cirrus
