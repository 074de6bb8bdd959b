// Words, tables and pictures of the report; curves and bars are drawn by enhance/plot.h.
#include "enhance/report.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/errors.h"
#include "base/version.h"
#include "enhance/plot.h"
#include "enhance/quicklook.h"
#include "metrics/table.h"

namespace cirrus::enhance {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--line:#8886;--soft:#8882}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:0 1rem 3rem}
h1{font-size:1.6rem}h2{font-size:1.3rem;border-top:1px solid var(--line);padding-top:1rem}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(22rem,100%),1fr));gap:1rem}
figure{margin:0}figcaption{font-size:.9rem}svg{width:100%;height:auto}
.wide{overflow-x:auto;-webkit-overflow-scrolling:touch}.wide img{display:block;max-width:none}
table{border-collapse:collapse;font-size:.9rem}th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right}
th:first-child,td:first-child{text-align:left}td small{display:block;opacity:.7;max-width:26rem}
pre{background:var(--soft);padding:.7rem;overflow-x:auto;font-size:.8rem}summary{cursor:pointer;padding:.3rem 0}
.good{color:#2a8a3a}.bad{color:#c0392b}
)";

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    unsigned triple = 0;
    for (size_t j = i; j < i + 3; ++j)
      triple = triple << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0u);
    for (unsigned digit = 0; digit < 4; ++digit)
      text += i + digit <= bytes.size() ? kDigits[triple >> (18 - 6 * digit) & 63] : '=';
  }
  return text;
}

/// The methods of one mode, with their colours.
struct Mode {
  std::string name;
  std::int64_t factor;
  std::vector<MethodMean> methods;
  std::vector<const EvaluatedMap*> maps;
};

std::vector<Mode> modes_of(const Evaluation& evaluation) {
  std::vector<Mode> modes;
  for (MethodMean& mean : means(evaluation)) {
    if (modes.empty() || modes.back().name != mean.mode) modes.push_back({mean.mode, 0, {}, {}});
    modes.back().methods.push_back(std::move(mean));
  }
  for (const EvaluatedMap& map : evaluation.maps) {
    for (Mode& mode : modes) {
      if (mode.name != map.mode) continue;
      mode.factor = map.factor;
      mode.maps.push_back(&map);
    }
  }
  return modes;
}

/// Figures down, methods across: narrow enough for a phone.
std::string means_table(const Mode& mode) {
  std::string html = "<div class=\"wide\"><table><tr><th>figure</th>";
  for (const MethodMean& mean : mode.methods) html += "<th>" + escaped(mean.method) + "</th>";
  html += "</tr>";
  const auto row = [&](std::string_view name, std::string_view meaning, auto&& value_of) {
    std::string cells;
    bool any = false;
    for (const MethodMean& mean : mode.methods) {
      const std::optional<double> value = value_of(mean);
      any = any || value;
      cells += "<td>" + (value ? number(*value) : "&ndash;") + "</td>";
    }
    if (any) html += "<tr><td>" + escaped(name) + "<small>" + escaped(meaning) + "</small></td>" + cells + "</tr>\n";
  };
  for (const metrics::Figure& figure : metrics::figures())
    row(figure.name, figure.meaning, [&](const MethodMean& mean) { return mean.score.*figure.value; });
  row("seconds", "wall time a map", [](const MethodMean& mean) { return std::optional(mean.seconds); });
  row("evaluations", "network evaluations a member",
      [](const MethodMean& mean) { return mean.evaluations > 0 ? std::optional(mean.evaluations) : std::nullopt; });
  return html + "</table></div>\n";
}

std::string figure_of(const std::string& svg, const std::string& caption) {
  return "<figure>" + svg + "<figcaption>" + escaped(caption) + "</figcaption></figure>\n";
}

std::string spectra(const Mode& mode) {
  std::vector<Curve> power, coherence;
  for (size_t i = 0; i < mode.methods.size(); ++i) {
    const MethodMean& mean = mode.methods[i];
    power.push_back({mean.method, mean.score.k, mean.score.ps_k, i, false});
    coherence.push_back({mean.method, mean.score.k, mean.score.r_k, i, false});
    if (!mean.score.sample_ps_k.empty())
      power.push_back({mean.method + ", one member", mean.score.k, mean.score.sample_ps_k, i, true});
  }
  const double nyquist = 0.5 / static_cast<double>(mode.factor);
  Axes axes{.x_label = "wave number, cycles per output pixel",
            .y_label = "power over the truth's",
            .log_y = true,
            .reference_y = 1.0,
            .marker_x = nyquist};
  std::string html = figure_of(line_plot(power, axes),
                               "Power at each scale: 1 is right. Right of the dashed line the input holds nothing. "
                               "A mean is smoother than the sky by nature; one member should not be.");
  axes = {.x_label = "wave number, cycles per output pixel",
          .y_label = "correlation with the truth",
          .log_y = false,
          .reference_y = 0.5,
          .marker_x = nyquist};
  return html +
         figure_of(line_plot(coherence, axes),
                   "Correlation at each scale. Where it is below 0.5, structure is statistics more than measurement.");
}

std::string calibration(const Mode& mode) {
  std::string html;
  for (size_t i = 0; i < mode.methods.size(); ++i) {
    const metrics::Score& score = mode.methods[i].score;
    if (score.rank.empty()) continue;
    const std::string caption =
        mode.methods[i].method + ": rank of the truth among " + std::to_string(score.members) +
        " members. Flat is calibrated, a U is too narrow, a hump too wide. Inside the 68.3 % interval: " +
        number(100 * score.coverage.value_or(NAN)) +
        " %, inside 95 %: " + number(100 * score.coverage95.value_or(NAN)) + " %; spread over error " +
        number(score.spread_skill.value_or(NAN)) + ".";
    html += figure_of(bar_plot(score.rank,
                               {.x_label = "members below the truth",
                                .y_label = "share of pixels",
                                .log_y = false,
                                .reference_y = 1.0 / static_cast<double>(score.rank.size()),
                                .marker_x = {}},
                               i),
                      caption);
  }
  return html;
}

/// Minkowski functionals averaged over the maps of the mode: the truth and each method.
std::string shapes(const Mode& mode) {
  using Functional = std::vector<double> metrics::MinkowskiFunctionals::*;
  std::string html;
  for (const auto& [functional, label, caption] :
       {std::tuple<Functional, std::string, std::string>{&metrics::MinkowskiFunctionals::boundary,
                                                         "boundary length an area / 4",
                                                         "Length of contours: texture and filaments."},
        {&metrics::MinkowskiFunctionals::euler, "components minus holes an area",
         "Connectedness of what is brighter than a threshold."}}) {
    std::vector<Curve> curves(mode.methods.size() + 1);
    curves[0] = {"truth", shape_thresholds(), {}, kTruthColor, false};
    for (size_t i = 0; i < mode.methods.size(); ++i)
      curves[i + 1] = {mode.methods[i].method, shape_thresholds(), {}, i, false};
    for (Curve& curve : curves) curve.y.assign(curve.x.size(), 0.0);
    for (const EvaluatedMap* map : mode.maps) {
      const auto add = [&](Curve& curve, const std::vector<double>& values, size_t maps) {
        for (size_t i = 0; i < values.size(); ++i) curve.y[i] += values[i] / static_cast<double>(maps);
      };
      add(curves[0], map->shape.*functional, mode.maps.size());
      for (const Answer& answer : map->answers) {
        for (size_t i = 0; i < mode.methods.size(); ++i)
          if (mode.methods[i].method == answer.method)
            add(curves[i + 1], answer.shape.*functional, mode.methods[i].maps);
      }
    }
    html += figure_of(line_plot(curves, {.x_label = "threshold, standard deviations of the truth (asinh scale)",
                                         .y_label = label,
                                         .log_y = false,
                                         .reference_y = {},
                                         .marker_x = {}}),
                      caption + " Of one member where a method has members, else of its mean.");
  }
  return html;
}

std::string pictures(const EvaluatedMap& map) {
  std::vector<Panel> panels;
  const auto add = [&](const std::string& title, const at::Tensor& image, bool own_limits) {
    if (!image.defined()) return;
    panels.push_back({title,
                      {image.const_data_ptr<float>(), static_cast<size_t>(image.numel())},
                      image.size(1),
                      image.size(0),
                      own_limits});
  };
  add("input", map.lr, false);
  add("truth", map.truth, false);
  for (const Answer& answer : map.answers) {
    add(answer.method, answer.mean, false);
    add(answer.method + ": one member", answer.sample, false);
    add(answer.method + ": std", answer.std, true);
  }
  if (panels.empty()) return "";
  QuicklookOptions options;
  options.unit = map.unit;
  options.side = 288;
  return "<details open><summary>" + escaped(map.name + " (" + map.mode + ")") +
         "</summary><div class=\"wide\"><img alt=\"" + escaped(map.name) + "\" src=\"data:image/png;base64," +
         base64(draw_panels(panels, options)) + "\"></div></details>\n";
}

std::string tables_by_map(const Mode& mode) {
  std::string html;
  for (const MethodMean& mean : mode.methods) {
    std::vector<metrics::Row> rows;
    for (const EvaluatedMap* map : mode.maps)
      for (const Answer& answer : map->answers)
        if (answer.method == mean.method) rows.push_back({map->name, map->family, answer.score});
    html += "<details><summary>Every map: " + escaped(mean.method) + "</summary><pre>" + escaped(metrics::table(rows)) +
            "</pre></details>\n";
  }
  return html;
}

}  // namespace

std::string html_report(const Evaluation& evaluation, const ReportText& text) {
  if (evaluation.maps.empty()) throw Error(ExitCode::usage, "there is no map to report on", "evaluate at least one");
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>" +
      escaped(text.title) + "</title><style>" + kStyle + "</style></head><body>\n<h1>" + escaped(text.title) +
      "</h1>\n";
  for (const std::string& note : text.notes) html += "<p>" + escaped(note) + "</p>\n";
  if (text.had_requirements && text.unmet.empty()) html += "<p class=\"good\">All requirements are met.</p>\n";
  for (const std::string& sentence : text.unmet) html += "<p class=\"bad\">Not met: " + escaped(sentence) + "</p>\n";
  for (const Mode& mode : modes_of(evaluation)) {
    html += "<h2>" + escaped(mode.name) + " mode, factor " + std::to_string(mode.factor) + ", " +
            std::to_string(mode.maps.size()) + (mode.maps.size() == 1 ? " map" : " maps") + "</h2>\n";
    html += mode.name == "block" ? "<p>The input is the exact block mean of the truth.</p>\n"
                                 : "<p>The input is the truth seen through a wider beam, with noise.</p>\n";
    html +=
        means_table(mode) + "<div class=\"plots\">\n" + spectra(mode) + calibration(mode) + shapes(mode) + "</div>\n";
    for (const EvaluatedMap* map : mode.maps) html += pictures(*map);
    html += tables_by_map(mode);
  }
  if (!text.commands.empty()) {
    html += "<h2>To repeat this</h2>\n<pre>";
    for (const std::string& command : text.commands) html += escaped(command) + "\n";
    html += "</pre>\n";
  }
  return html + "<p><small>Made by Cirrus " + kVersion + ".</small></p>\n</body></html>\n";
}

}  // namespace cirrus::enhance
