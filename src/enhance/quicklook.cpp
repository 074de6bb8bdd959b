// Limits, stretches, colours and layout of quick-look pictures; see quicklook.h.
#include "enhance/quicklook.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "base/errors.h"

namespace cirrus::enhance {
namespace {

constexpr double kAsinhSoftening = 0.1;
constexpr double kLogScale = 1000;
constexpr int kMargin = 10;
constexpr int kTitleHeight = 26;
constexpr int kBarHeight = 14;
constexpr int kLabelsHeight = 44;

using Lut = std::array<cv::Vec3d, 256>;  // blue, green, red in 0..1

/// D. A. Green 2011, Bull. Astr. Soc. India 39, 289: start 0.5, rotations -1.5, hue 1, gamma 1.
cv::Vec3d cubehelix(double fraction) {
  const double angle = 2 * CV_PI * (0.5 / 3 + 1 - 1.5 * fraction);
  const double amplitude = fraction * (1 - fraction) / 2;
  const double c = std::cos(angle), s = std::sin(angle);
  const auto channel = [&](double value) { return std::clamp(fraction + amplitude * value, 0.0, 1.0); };
  return {channel(1.97294 * c), channel(-0.29227 * c - 0.90649 * s), channel(-0.14861 * c + 1.78277 * s)};
}

Lut color_map(const std::string& name) {
  Lut lut;
  if (name == "gray" || name == "cubehelix") {
    for (std::size_t i = 0; i < lut.size(); ++i) {
      const double t = static_cast<double>(i) / 255;
      lut[i] = name == "gray" ? cv::Vec3d(t, t, t) : cubehelix(t);
    }
    return lut;
  }
  int code = cv::COLORMAP_INFERNO;
  if (name == "magma")
    code = cv::COLORMAP_MAGMA;
  else if (name == "viridis")
    code = cv::COLORMAP_VIRIDIS;
  else if (name != "inferno")
    throw Error(ExitCode::usage, "no colour map " + name, "gray, inferno, magma, viridis, cubehelix");
  cv::Mat ramp(1, 256, CV_8U), colors;
  for (int i = 0; i < 256; ++i) ramp.at<std::uint8_t>(i) = static_cast<std::uint8_t>(i);
  cv::applyColorMap(ramp, colors, code);
  for (int i = 0; i < 256; ++i) lut[static_cast<std::size_t>(i)] = cv::Vec3d(colors.at<cv::Vec3b>(i)) / 255.0;
  return lut;
}

/// A colour far from all of the map: steel blue, or grey where the map has blue itself.
cv::Vec3d missing_color(const std::string& cmap) {
  if (cmap == "viridis") return {0.6, 0.6, 0.6};
  if (cmap == "cubehelix") return {0.15, 0.15, 0.85};
  return {0.62, 0.45, 0.25};
}

cv::Vec3d color_at(const Lut& lut, double place) {
  const double position = place * 255;
  const auto below = static_cast<std::size_t>(std::min(position, 254.0));
  const double part = position - static_cast<double>(below);
  return lut[below] * (1 - part) + lut[below + 1] * part;
}

/// The panel at the size it is shown: means of the values that exist, or repeated pixels; first row on top (flipped).
cv::Mat_<float> at_size(const Panel& panel, int width, int height) {
  cv::Mat_<float> shown(height, width);
  for (int row = 0; row < height; ++row) {
    const std::int64_t y0 = panel.height * row / height;
    const std::int64_t y1 = std::max(panel.height * (row + 1) / height, y0 + 1);
    for (int column = 0; column < width; ++column) {
      const std::int64_t x0 = panel.width * column / width;
      const std::int64_t x1 = std::max(panel.width * (column + 1) / width, x0 + 1);
      double sum = 0;
      int count = 0;
      for (std::int64_t y = y0; y < y1; ++y) {
        for (std::int64_t x = x0; x < x1; ++x) {
          const float value = panel.pixels[static_cast<std::size_t>(y * panel.width + x)];
          if (std::isfinite(value)) sum += value, ++count;
        }
      }
      shown(height - 1 - row, column) = count > 0 ? static_cast<float>(sum / count) : NAN;
    }
  }
  return shown;
}

void write_text(cv::Mat& picture, const std::string& text, cv::Point center, int room, double size) {
  constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;
  int baseline = 0;
  int width = cv::getTextSize(text, kFont, size, 1, &baseline).width;
  if (width > room) {
    size = std::max(size * room / width, 0.25);
    width = cv::getTextSize(text, kFont, size, 1, &baseline).width;
  }
  const double white = picture.depth() == CV_16U ? 65535 : 255;
  cv::putText(picture, text, {center.x - width / 2, center.y}, kFont, size, cv::Scalar::all(0.1 * white), 1,
              cv::LINE_AA);
}

std::string label_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value == 0 ? 0.0 : value);
  return text;
}

/// Everything that turns values into colours on one picture.
class Painter {
public:
  Painter(cv::Mat& picture, const QuicklookOptions& options)
      : picture_(picture), options_(options), lut_(color_map(options.cmap)), missing_(missing_color(options.cmap)) {}

  void paint_map(const cv::Mat_<float>& values, const Limits& limits, cv::Point corner) {
    for (int y = 0; y < values.rows; ++y) {
      for (int x = 0; x < values.cols; ++x) {
        const double place = std::isfinite(values(y, x)) ? stretched(values(y, x), limits, options_.stretch) : NAN;
        set(corner.x + x, corner.y + y, std::isnan(place) ? missing_ : color_at(lut_, place));
      }
    }
  }

  void paint_bar(const Limits& limits, cv::Point corner, int width) {
    for (int x = 0; x < width; ++x) {
      const cv::Vec3d color = color_at(lut_, width > 1 ? static_cast<double>(x) / (width - 1) : 0);
      for (int y = 0; y < kBarHeight; ++y) set(corner.x + x, corner.y + y, color);
    }
    const int below = corner.y + kBarHeight + 15;
    const int ticks = width >= 250 ? 5 : 3;
    for (int tick = 0; tick < ticks && std::isfinite(limits.low) && limits.high > limits.low; ++tick) {
      const double place = static_cast<double>(tick) / (ticks - 1);
      const int x = corner.x + static_cast<int>(std::lround(place * (width - 1)));
      for (int y = 0; y < 4; ++y) set(x, corner.y + kBarHeight + y, {0.1, 0.1, 0.1});
      const int inset = tick == 0 ? 22 : tick == ticks - 1 ? -22 : 0;
      write_text(picture_, label_of(unstretched(place, limits, options_.stretch)), {x + inset, below}, width / ticks,
                 0.4);
    }
    const std::string text =
        limits.low == limits.high ? "constant " + label_of(limits.low) + " " + options_.unit : options_.unit;
    write_text(picture_, text, {corner.x + width / 2, below + 18}, width, 0.42);
  }

private:
  void set(int x, int y, const cv::Vec3d& color) {
    if (picture_.depth() == CV_16U) {
      const cv::Vec3d scaled = color * 65535.0;
      picture_.at<cv::Vec3w>(y, x) =
          cv::Vec3w(cv::saturate_cast<std::uint16_t>(scaled[0]), cv::saturate_cast<std::uint16_t>(scaled[1]),
                    cv::saturate_cast<std::uint16_t>(scaled[2]));
      return;
    }
    const cv::Vec3d scaled = color * 255.0;
    picture_.at<cv::Vec3b>(y, x) =
        cv::Vec3b(cv::saturate_cast<std::uint8_t>(scaled[0]), cv::saturate_cast<std::uint8_t>(scaled[1]),
                  cv::saturate_cast<std::uint8_t>(scaled[2]));
  }

  cv::Mat& picture_;
  const QuicklookOptions& options_;
  const Lut lut_;
  const cv::Vec3d missing_;
};

/// Limits of several panels together, of every n-th pixel where there are very many.
Limits limits_of(const std::vector<const Panel*>& panels, const std::string& stretch) {
  constexpr std::size_t kMost = 1 << 23;
  std::size_t total = 0;
  for (const Panel* panel : panels) total += panel->pixels.size();
  const std::size_t stride = 1 + total / kMost;
  std::vector<float> values;
  values.reserve(total / stride + panels.size());
  for (const Panel* panel : panels) {
    for (std::size_t i = 0; i < panel->pixels.size(); i += stride) values.push_back(panel->pixels[i]);
  }
  return stretch == "zscale" ? zscale_limits(values) : percentile_limits(std::move(values));
}

cv::Size shown_size(const Panel& panel, std::int64_t side) {
  const double zoom = static_cast<double>(side) / static_cast<double>(std::max(panel.width, panel.height));
  const auto length = [&](std::int64_t pixels) {
    return std::max(1, static_cast<int>(std::lround(zoom * static_cast<double>(pixels))));
  };
  return {length(panel.width), length(panel.height)};
}

}  // namespace

Limits percentile_limits(std::vector<float> values) {
  std::erase_if(values, [](float value) { return !std::isfinite(value); });
  if (values.empty()) return {};
  // Between neighbours, as numpy's default does.
  const auto percentile = [&](double share) {
    const double position = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::ptrdiff_t>(position);
    std::nth_element(values.begin(), values.begin() + below, values.end());
    const double low = values[static_cast<std::size_t>(below)];
    if (below + 1 == static_cast<std::ptrdiff_t>(values.size())) return low;
    const double high = *std::min_element(values.begin() + below + 1, values.end());
    return low + (high - low) * (position - static_cast<double>(below));
  };
  return {percentile(0.005), percentile(0.995)};
}

Limits zscale_limits(std::span<const float> values) {
  constexpr std::size_t kSamples = 1000;
  constexpr double kContrast = 0.25, kReject = 2.5, kMaxReject = 0.5;
  constexpr std::size_t kMinPixels = 5;
  std::vector<double> finite;
  for (const float value : values) {
    if (std::isfinite(value)) finite.push_back(value);
  }
  if (finite.empty()) return {};
  const std::size_t stride = std::max<std::size_t>(1, finite.size() / kSamples);
  std::vector<double> sample;
  for (std::size_t i = 0; i < finite.size() && sample.size() < kSamples; i += stride) sample.push_back(finite[i]);
  std::sort(sample.begin(), sample.end());
  const std::size_t n = sample.size();
  Limits limits{sample.front(), sample.back()};

  // A line through the sorted samples, iterated without those far off it; neighbours of a rejected sample go, too.
  std::vector<char> good(n, 1);
  const std::size_t least = std::max(kMinPixels, static_cast<std::size_t>(static_cast<double>(n) * kMaxReject));
  const auto grow = std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(n) * 0.01));
  std::size_t left = n, before = n + 1;
  double slope = 0;
  for (int iteration = 0; iteration < 5 && left < before && left >= least; ++iteration) {
    double count = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (!good[i]) continue;
      const auto x = static_cast<double>(i);
      count += 1, sx += x, sy += sample[i], sxx += x * x, sxy += x * sample[i];
    }
    const double determinant = count * sxx - sx * sx;
    slope = determinant > 0 ? (count * sxy - sx * sy) / determinant : 0;
    const double offset = (sy - slope * sx) / count;
    std::vector<double> residual(n);
    double mean = 0, square = 0;
    for (std::size_t i = 0; i < n; ++i) {
      residual[i] = sample[i] - (offset + slope * static_cast<double>(i));
      if (good[i]) mean += residual[i], square += residual[i] * residual[i];
    }
    mean /= count;
    const double threshold = kReject * std::sqrt(std::max(square / count - mean * mean, 0.0));
    std::vector<char> bad(n, 0);
    for (std::size_t i = 0; i < n; ++i) bad[i] = std::abs(residual[i]) > threshold || !good[i];
    // A centred window of `grow` samples, as numpy's convolve(mode="same") places it.
    before = left;
    left = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t first = i >= grow / 2 ? i - grow / 2 : 0;
      const std::size_t last = std::min(n - 1, i + (grow - 1) / 2);
      good[i] = std::none_of(bad.begin() + static_cast<std::ptrdiff_t>(first),
                             bad.begin() + static_cast<std::ptrdiff_t>(last) + 1, [](char b) { return b != 0; });
      left += good[i] ? 1u : 0u;
    }
  }
  if (left < least) return limits;
  slope /= kContrast;
  const auto center = static_cast<double>((n - 1) / 2);
  const double median = n % 2 == 1 ? sample[n / 2] : (sample[n / 2 - 1] + sample[n / 2]) / 2;
  limits.low = std::max(limits.low, median - (center - 1) * slope);
  limits.high = std::min(limits.high, median + (static_cast<double>(n) - center) * slope);
  return limits;
}

double stretched(double value, const Limits& limits, const std::string& stretch) {
  if (!(limits.high > limits.low)) return std::isnan(limits.low) ? NAN : 0.5;
  const double t = std::clamp((value - limits.low) / (limits.high - limits.low), 0.0, 1.0);
  if (stretch == "asinh") return std::asinh(t / kAsinhSoftening) / std::asinh(1 / kAsinhSoftening);
  if (stretch == "log") return std::log1p(kLogScale * t) / std::log1p(kLogScale);
  return t;
}

double unstretched(double place, const Limits& limits, const std::string& stretch) {
  double t = place;
  if (stretch == "asinh") t = kAsinhSoftening * std::sinh(place * std::asinh(1 / kAsinhSoftening));
  if (stretch == "log") t = std::expm1(place * std::log1p(kLogScale)) / kLogScale;
  return limits.low + t * (limits.high - limits.low);
}

std::string draw_panels(const std::vector<Panel>& panels, const QuicklookOptions& options) {
  if (std::find(std::begin(kStretches), std::end(kStretches), options.stretch) == std::end(kStretches)) {
    throw Error(ExitCode::usage, "no stretch " + options.stretch, "asinh, log, linear, zscale");
  }
  std::vector<const Panel*> sharing;
  std::vector<cv::Size> sizes;
  int width = kMargin, map_height = 0;
  for (const Panel& panel : panels) {
    if (panel.width < 1 || panel.height < 1 ||
        panel.pixels.size() != static_cast<std::size_t>(panel.width * panel.height)) {
      throw Error(ExitCode::internal, "panel " + panel.title + " has " + std::to_string(panel.pixels.size()) +
                                          " pixels, not " + std::to_string(panel.width) + " x " +
                                          std::to_string(panel.height));
    }
    if (!panel.own_limits) sharing.push_back(&panel);
    sizes.push_back(shown_size(panel, options.side));
    width += sizes.back().width + kMargin;
    map_height = std::max(map_height, sizes.back().height);
  }
  const int height = kTitleHeight + map_height + kMargin + kBarHeight + kLabelsHeight;
  const double white = options.sixteen_bit ? 65535 : 255;
  cv::Mat picture(height, width, options.sixteen_bit ? CV_16UC3 : CV_8UC3, cv::Scalar::all(white));
  Painter painter(picture, options);
  const Limits shared = limits_of(sharing, options.stretch);
  int left = kMargin;
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const Limits limits = panels[i].own_limits ? limits_of({&panels[i]}, options.stretch) : shared;
    write_text(picture, panels[i].title, {left + sizes[i].width / 2, kTitleHeight - 8}, sizes[i].width, 0.5);
    painter.paint_map(at_size(panels[i], sizes[i].width, sizes[i].height), limits, {left, kTitleHeight});
    painter.paint_bar(limits, {left, kTitleHeight + map_height + kMargin}, sizes[i].width);
    left += sizes[i].width + kMargin;
  }
  std::vector<std::uint8_t> bytes;
  if (!cv::imencode(".png", picture, bytes)) throw Error(ExitCode::internal, "OpenCV cannot encode the picture as PNG");
  return {bytes.begin(), bytes.end()};
}

}  // namespace cirrus::enhance
