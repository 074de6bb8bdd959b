// The bar and the lines; see progress.h.
#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"

namespace cirrus {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kLineSeconds = 30;

Progress::Output standard_output() {
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  const auto bar = [](const std::string& text) {
    if (log::speaking() && !log::quiet()) log::set_status_line(text);
  };
  return {isatty(STDERR_FILENO) != 0 && !dumb, steady_seconds, bar, log::info};
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string rate_text(double rate, const std::string& unit) {
  char text[48];
  if (rate >= 1 || rate <= 0) {
    std::snprintf(text, sizeof text, "%.3g ", rate);
    return text + unit + "/s";
  }
  std::snprintf(text, sizeof text, "%.3g s/", 1 / rate);
  // One of them: "3.2 s/tile".
  return text + (unit.ends_with('s') ? unit.substr(0, unit.size() - 1) : unit);
}

}  // namespace

std::string duration_text(double seconds) {
  char text[48];
  if (!(seconds < 1e9)) return "very long";
  if (seconds < 9.95) {
    std::snprintf(text, sizeof text, "%.1f s", std::max(seconds, 0.0));
    return text;
  }
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) {
    std::snprintf(text, sizeof text, "%lld s", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof text, "%lld min %02lld s", whole / 60, whole % 60);
  } else {
    const long long minutes = (whole + 30) / 60;
    std::snprintf(text, sizeof text, "%lld h %02lld min", minutes / 60, minutes % 60);
  }
  return text;
}

Progress::Progress(std::string title, std::int64_t total, std::string unit)
    : Progress(std::move(title), total, std::move(unit), standard_output()) {}

Progress::Progress(std::string title, std::int64_t total, std::string unit, Output output)
    : title_(std::move(title)),
      total_(total),
      unit_(std::move(unit)),
      output_(std::move(output)),
      start_(output_.seconds()),
      next_(start_ + (output_.terminal ? kRedrawSeconds : kLineSeconds)) {}

Progress::~Progress() {
  if (output_.terminal) output_.bar("");
}

void Progress::advance(std::int64_t n) {
  done_.fetch_add(n, std::memory_order_relaxed);
  const double now = output_.seconds();
  if (now < next_.load(std::memory_order_relaxed)) return;
  const std::unique_lock<std::mutex> lock(drawing_, std::try_to_lock);
  if (!lock || now < next_) return;
  next_ = now + (output_.terminal ? kRedrawSeconds : kLineSeconds);
  if (!output_.terminal) {
    output_.line(utc_now() + " " + title_ + ": " + status(now - start_));
    return;
  }
  const std::string right = " " + status(now - start_);
  const int room = terminal_columns() - 1 - static_cast<int>(title_.size() + 3 + right.size());
  std::string bar;
  if (total_ > 0 && room >= 8) {
    const auto width = static_cast<std::size_t>(std::min(room, 40));
    const double share = std::clamp(static_cast<double>(done()) / static_cast<double>(total_), 0.0, 1.0);
    const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
    bar = " [" + std::string(full, '=') + std::string(width - full, ' ') + "]";
  }
  output_.bar((title_ + bar + right).substr(0, static_cast<std::size_t>(std::max(terminal_columns() - 1, 1))));
}

std::string Progress::status(double elapsed) const {
  const auto count = static_cast<double>(done());
  const double rate = elapsed > 0 ? count / elapsed : 0;
  std::string text = std::to_string(done());
  if (total_ <= 0) return text + " " + unit_ + ", " + rate_text(rate, unit_);
  char share[16];
  std::snprintf(share, sizeof share, "%.0f %%", 100 * count / static_cast<double>(total_));
  text += "/" + std::to_string(total_) + " " + unit_ + " (" + share + "), " + rate_text(rate, unit_);
  if (rate > 0 && done() < total_) text += ", " + duration_text((static_cast<double>(total_) - count) / rate) + " left";
  return text;
}

}  // namespace cirrus
