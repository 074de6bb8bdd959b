// Progress of one long loop: a bar with rate and time left on a terminal, otherwise at most one line every 30 s with
// UTC time. Silent under --quiet and on ranks that do not speak. advance() costs an atomic addition and a clock
// reading.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace cirrus {

class Progress {
public:
  /// Where progress goes; tests give their own.
  struct Output {
    bool terminal = false;
    std::function<double()> seconds;               ///< a steady clock
    std::function<void(const std::string&)> bar;   ///< redraw the bar ("" removes it); on a terminal
    std::function<void(const std::string&)> line;  ///< one line; elsewhere
  };

  /// total 0: unknown (no share, no time left). `unit` is the plural of what is counted: "tiles", "steps".
  Progress(std::string title, std::int64_t total, std::string unit);
  Progress(std::string title, std::int64_t total, std::string unit, Output output);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts n more; safe from any thread.
  void advance(std::int64_t n = 1);
  std::int64_t done() const { return done_.load(std::memory_order_relaxed); }

private:
  std::string status(double elapsed) const;

  const std::string title_;
  const std::int64_t total_;
  const std::string unit_;
  const Output output_;
  const double start_;
  std::atomic<std::int64_t> done_{0};
  std::atomic<double> next_;
  std::mutex drawing_;
};

/// "3 min 20 s", "45 s", "2 h 05 min", "0.8 s": a length of time for people.
std::string duration_text(double seconds);

}  // namespace cirrus
