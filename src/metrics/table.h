// Scores of many maps as a table for people: one row a map, then means of each family and over all.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "metrics/score.h"

namespace cirrus::metrics {

struct Row {
  std::string field;         ///< name of the map
  std::string family = "-";  ///< kind of sky
  Score score;
};

/// A named mean: of one family, or "all".
struct Mean {
  std::string family;
  Score score;
};

/// Means of each family in order of appearance, then "all".
std::vector<Mean> means(std::span<const Row> rows);

/// What the first two columns are, and whether means follow the rows.
struct TableStyle {
  std::string first = "field", second = "family";
  bool with_means = true;
};

/// The table as text, one line a row, four significant digits, "-" where a figure is not defined; columns that no row
/// has are left out. Ends with a newline.
std::string table(std::span<const Row> rows, const TableStyle& style = {});

}  // namespace cirrus::metrics
