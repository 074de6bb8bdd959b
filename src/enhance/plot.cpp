// Axes, ticks and marks in a picture of 480 x 300 units.
#include "enhance/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace cirrus::enhance {
namespace {

constexpr double kLeft = 56, kRight = 470, kTop = 12, kBottom = 252, kHeight = 300, kLegendRow = 18;

// Okabe and Ito 2008: told apart by colour-blind readers, on white and on black.
constexpr std::array kPalette = {"#0072B2", "#E69F00", "#009E73", "#D55E00",
                                 "#CC79A7", "#56B4E9", "#8a6d00", "#7a7a7a"};

std::string color_of(std::size_t color) {
  return color == kTruthColor ? "currentColor" : kPalette[color % kPalette.size()];
}

std::string text_of(double value, const char* format = "%.1f") {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

struct Range {
  double low = 0, high = 1;
};

/// A step of 1, 2 or 5 times a power of ten that gives about `count` ticks.
double tick_step(const Range& range, int count) {
  const double raw = (range.high - range.low) / count, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return factor * power;
  return 10 * power;
}

/// One picture under construction.
class Picture {
public:
  Picture(const Range& x, const Range& y, const Axes& axes) : x_(x), y_(y), axes_(axes) {}

  bool shows(double y) const { return std::isfinite(y) && (!axes_.log_y || y > 0); }
  double px(double x) const { return kLeft + (x - x_.low) / (x_.high - x_.low) * (kRight - kLeft); }
  double py(double y) const {
    const double place =
        axes_.log_y ? std::log10(y / y_.low) / std::log10(y_.high / y_.low) : (y - y_.low) / (y_.high - y_.low);
    return kBottom - std::clamp(place, 0.0, 1.0) * (kBottom - kTop);
  }

  void line(double x1, double y1, double x2, double y2, const std::string& style) {
    body_ += "<line x1=\"" + text_of(x1) + "\" y1=\"" + text_of(y1) + "\" x2=\"" + text_of(x2) + "\" y2=\"" +
             text_of(y2) + "\" " + style + "/>";
  }
  void label(double x, double y, const std::string& words, const std::string& style) {
    body_ += "<text x=\"" + text_of(x) + "\" y=\"" + text_of(y) + "\" " + style + ">" + escaped(words) + "</text>";
  }
  void add(const std::string& element) { body_ += element; }

  /// Frame, ticks, labels and the two reference lines. `x_ticks` off: the caller labels the axis.
  void frame(bool x_ticks) {
    const std::string thin = "stroke=\"currentColor\" stroke-opacity=\".25\"";
    if (x_ticks) {
      const double step = tick_step(x_, 5);
      for (double v = std::ceil(x_.low / step - 1e-9) * step; v <= x_.high + 1e-9 * step; v += step) {
        line(px(v), kTop, px(v), kBottom, thin);
        label(px(v), kBottom + 16, text_of(std::abs(v) < 1e-9 * step ? 0 : v, "%.3g"), "text-anchor=\"middle\"");
      }
    }
    const auto y_tick = [&](double v) {
      line(kLeft, py(v), kRight, py(v), thin);
      label(kLeft - 5, py(v) + 4, text_of(v, "%.3g"), "text-anchor=\"end\"");
    };
    if (axes_.log_y) {
      for (double v = y_.low; v <= y_.high * 1.0001; v *= 10) y_tick(v);
    } else {
      const double step = tick_step(y_, 5);
      for (double v = std::ceil(y_.low / step - 1e-9) * step; v <= y_.high + 1e-9 * step; v += step)
        y_tick(std::abs(v) < 1e-9 * step ? 0 : v);
    }
    if (axes_.reference_y)
      line(kLeft, py(*axes_.reference_y), kRight, py(*axes_.reference_y),
           "stroke=\"currentColor\" stroke-opacity=\".7\"");
    if (axes_.marker_x)
      line(px(*axes_.marker_x), kTop, px(*axes_.marker_x), kBottom, "stroke=\"currentColor\" stroke-dasharray=\"4 4\"");
    label((kLeft + kRight) / 2, kBottom + 36, axes_.x_label, "text-anchor=\"middle\"");
    const double middle = (kTop + kBottom) / 2;
    label(12, middle, axes_.y_label, "text-anchor=\"middle\" transform=\"rotate(-90 12 " + text_of(middle) + ")\"");
  }

  std::string svg(double height) const {
    return "<svg viewBox=\"0 0 480 " + text_of(height, "%.0f") +
           "\" role=\"img\" font-size=\"12\" font-family=\"system-ui,sans-serif\" fill=\"currentColor\">" + body_ +
           "</svg>";
  }

private:
  Range x_, y_;
  const Axes& axes_;
  std::string body_;
};

/// The range of all finite values and the reference line, a little wider; powers of ten on a logarithmic axis.
Range y_range(const std::vector<Curve>& curves, const Axes& axes) {
  double low = axes.reference_y.value_or(INFINITY), high = axes.reference_y.value_or(-INFINITY);
  for (const Curve& curve : curves) {
    for (const double y : curve.y) {
      if (!std::isfinite(y) || (axes.log_y && y <= 0)) continue;
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  if (!(low <= high)) return axes.log_y ? Range{0.1, 10} : Range{};
  if (axes.log_y)
    return {std::pow(10, std::clamp(std::floor(std::log10(low)), -3.0, 0.0)),
            std::pow(10, std::clamp(std::ceil(std::log10(high) + 1e-9), 1.0, 2.0))};
  const double margin = high > low ? 0.05 * (high - low) : std::max(0.5 * std::abs(high), 1e-6);
  return {low - margin, high + margin};
}

}  // namespace

std::string line_plot(const std::vector<Curve>& curves, const Axes& axes) {
  Range x{INFINITY, -INFINITY};
  for (const Curve& curve : curves) {
    for (const double v : curve.x) x = {std::min(x.low, v), std::max(x.high, v)};
  }
  if (!(x.low < x.high)) x = {};
  Picture picture(x, y_range(curves, axes), axes);
  picture.frame(true);
  double legend = kHeight + 6;
  for (const Curve& curve : curves) {
    const std::string stroke = "stroke=\"" + color_of(curve.color) + "\" stroke-width=\"" +
                               (curve.color == kTruthColor ? "3" : "1.8") + "\"" +
                               (curve.dashed ? " stroke-dasharray=\"6 3\"" : "");
    std::string path;
    bool drawing = false;
    for (size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i) {
      if (!picture.shows(curve.y[i])) {
        drawing = false;
        continue;
      }
      path += (drawing ? "L" : "M") + text_of(picture.px(curve.x[i])) + " " + text_of(picture.py(curve.y[i]));
      drawing = true;
    }
    picture.add("<path fill=\"none\" " + stroke + " d=\"" + path + "\"/>");
    picture.line(kLeft, legend - 4, kLeft + 26, legend - 4, stroke);
    picture.label(kLeft + 32, legend, curve.label, "");
    legend += kLegendRow;
  }
  return picture.svg(legend - kLegendRow + 8);
}

std::string bar_plot(const std::vector<double>& values, const Axes& axes, std::size_t color) {
  double highest = axes.reference_y.value_or(0);
  for (const double v : values)
    if (std::isfinite(v)) highest = std::max(highest, v);
  const double count = static_cast<double>(values.size());
  Picture picture({-0.5, count - 0.5}, {0, highest > 0 ? 1.1 * highest : 1}, axes);
  picture.frame(false);
  const size_t every = 1 + values.size() / 20;
  for (size_t i = 0; i < values.size(); ++i) {
    const double place = static_cast<double>(i), top = picture.py(std::isfinite(values[i]) ? values[i] : 0);
    picture.add("<rect x=\"" + text_of(picture.px(place - 0.4)) + "\" y=\"" + text_of(top) + "\" width=\"" +
                text_of(picture.px(0.8) - picture.px(0)) + "\" height=\"" + text_of(kBottom - top) +
                "\" fill-opacity=\".75\" fill=\"" + color_of(color) + "\"/>");
    if (i % every == 0) picture.label(picture.px(place), kBottom + 16, std::to_string(i), "text-anchor=\"middle\"");
  }
  return picture.svg(kHeight);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace cirrus::enhance
