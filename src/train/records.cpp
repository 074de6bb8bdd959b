// Writing train.jsonl and drawing it.
#include "train/records.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"

namespace cirrus::train {
namespace {

/// The lines that hold what is read back here; others (cut off by a kill, written by a person) are passed over.
std::vector<nlohmann::ordered_json> read_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::ordered_json> lines;
  std::ifstream in(path);
  for (std::string text; std::getline(in, text);) {
    nlohmann::ordered_json line = nlohmann::ordered_json::parse(text, nullptr, false);
    const auto number = [&](const char* key) { return line.contains(key) && line[key].is_number(); };
    if (line.is_object() && number("step") && number("samples") && number("loss") && number("lr"))
      lines.push_back(std::move(line));
  }
  return lines;
}

/// Significant digits enough for a plot and a comparison; keeps lines short.
double rounded(double v) {
  return std::isfinite(v) && v != 0 ? std::stod((std::ostringstream() << std::scientific << v).str()) : v;
}

}  // namespace

RecordFile::RecordFile(const std::filesystem::path& path, std::int64_t resume_step) {
  std::string kept;
  if (resume_step > 0)
    for (const nlohmann::ordered_json& line : read_lines(path))
      if (line["step"].get<std::int64_t>() <= resume_step) kept += line.dump() + "\n";
  write_text(path, kept, true);
  out_.open(path, std::ios::app);
  if (!out_) throw Error(ExitCode::cannot_create, "Cannot write " + path.string());
}

void RecordFile::write(const Record& r) {
  nlohmann::ordered_json line{{"step", r.step},
                              {"samples", r.samples},
                              {"loss", rounded(r.loss)},
                              {"lr", rounded(r.learning_rate)},
                              {"grad_norm", rounded(r.grad_norm)},
                              {"samples_per_s", rounded(r.samples_per_s)},
                              {"data_s", rounded(r.data_s)},
                              {"step_s", rounded(r.step_s)},
                              {"time", utc_now()}};
  out_ << line.dump() << "\n" << std::flush;
  if (!out_) throw Error(ExitCode::io, "Cannot write train.jsonl", "is the disk full?");
}

void draw_curves(const std::filesystem::path& records, const std::filesystem::path& svg) {
  const std::vector<nlohmann::ordered_json> lines = read_lines(records);
  if (lines.size() < 2) return;
  constexpr double width = 720, height = 300, left = 60, bottom = 40, top = 24;
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << width << " " << 2 * height
      << "' font-family='sans-serif' font-size='12'>\n"
      << "<rect width='100%' height='100%' fill='white'/>\n";
  const double last = lines.back()["samples"].get<double>();
  int panel = 0;
  for (const auto& [key, title] :
       {std::pair{"loss", "loss (log scale)"}, std::pair{"lr", "learning rate (log scale)"}}) {
    double low = 1e300, high = -1e300;
    for (const auto& line : lines)
      if (const double v = line[key].get<double>(); v > 0)
        low = std::min(low, std::log10(v)), high = std::max(high, std::log10(v));
    if (!(high > low)) high = low + 1;
    const double y0 = panel++ * height + top, y1 = y0 + height - top - bottom;
    out << "<text x='" << left << "' y='" << y0 - 8 << "'>" << title << "</text><rect x='" << left << "' y='" << y0
        << "' width='" << width - left - 20 << "' height='" << y1 - y0
        << "' fill='none' stroke='#888'/>\n<polyline fill='none' stroke='#1f6feb' points='";
    for (const auto& line : lines)
      if (const double v = line[key].get<double>(); v > 0)
        out << left + line["samples"].get<double>() / last * (width - left - 20) << ","
            << y1 - (std::log10(v) - low) / (high - low) * (y1 - y0) << " ";
    out << "'/>\n<text x='4' y='" << y0 + 12 << "'>" << std::pow(10, high) << "</text><text x='4' y='" << y1 << "'>"
        << std::pow(10, low) << "</text><text x='" << width - 120 << "' y='" << y1 + 18 << "'>" << last
        << " samples</text>\n";
  }
  out << "</svg>\n";
  write_text(svg, out.str(), true);
}

}  // namespace cirrus::train
