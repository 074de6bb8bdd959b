// Fixed-width text.
#include "metrics/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace cirrus::metrics {
namespace {

constexpr std::array<std::string_view, 17> kColumns = {
    "rT",   "rL",   "ssim",      "ps",        "ps_lin", "r_lo",     "r_hi",       "flux_error",  "chi2",
    "seam", "grid", "sample_rT", "sample_ps", "crps",   "coverage", "coverage95", "spread_skill"};

constexpr int kWidth = 12;

/// Blanks behind the text up to `width`, or before it up to -`width`.
std::string padded(std::string_view text, int width) {
  const std::string blanks(static_cast<size_t>(std::max(std::abs(width) - static_cast<int>(text.size()), 0)), ' ');
  return width < 0 ? blanks + std::string(text) : std::string(text) + blanks;
}

std::string four_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace

std::vector<Mean> means(std::span<const Row> rows) {
  std::vector<std::string> families;
  for (const Row& row : rows)
    if (std::find(families.begin(), families.end(), row.family) == families.end()) families.push_back(row.family);
  std::vector<Mean> means;
  const auto add = [&](const std::string& name, auto&& belongs) {
    std::vector<Score> scores;
    for (const Row& row : rows)
      if (belongs(row)) scores.push_back(row.score);
    means.push_back({name, mean_score(scores)});
  };
  for (const std::string& family : families) add(family, [&](const Row& row) { return row.family == family; });
  add("all", [](const Row&) { return true; });
  return means;
}

std::string table(std::span<const Row> rows, const TableStyle& style) {
  std::vector<const Figure*> columns;
  for (const std::string_view name : kColumns) {
    const Figure* figure = find_figure(name);
    if (std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return (row.score.*figure->value).has_value(); }))
      columns.push_back(figure);
  }
  std::string text = padded(style.first, 5) + " " + padded(style.second, 11);
  for (const Figure* figure : columns) text += " " + padded(figure->name.substr(0, kWidth), -kWidth);
  text += '\n';
  const auto line = [&](const std::string& field, const std::string& family, const Score& score) {
    text += padded(field, 5) + " " + padded(family, 11);
    for (const Figure* figure : columns) {
      const auto& value = score.*figure->value;
      text += " " + padded(value ? four_digits(*value) : "-", -kWidth);
    }
    text += '\n';
  };
  for (const Row& row : rows) line(row.field, row.family, row.score);
  if (style.with_means)
    for (const Mean& mean : means(rows)) line("mean", mean.family, mean.score);
  return text;
}

}  // namespace cirrus::metrics
