// The counters of the fake HPU, their C interface and their report.
#include "tests/device/fake_hpu/recorder.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace fake_hpu {
namespace {

constexpr std::size_t kLongestList = 10000;  // of step numbers in a report

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <class Map>
std::string object(const Map& map) {
  std::string out;
  for (const auto& [name, n] : map) out += (out.empty() ? "\"" : ", \"") + name + "\": " + std::to_string(n);
  return "{" + out + "}";
}

std::string array(const std::vector<std::int64_t>& values) {
  std::string out;
  for (const std::int64_t v : values) out += (out.empty() ? "" : ", ") + std::to_string(v);
  return "[" + out + "]";
}

void write_report() {
  const std::string file = environment("CIRRUS_FAKE_HPU_REPORT");
  if (!file.empty()) std::ofstream(file) << Recorder::get().json() << "\n";
}

const int kReportAtExit = std::atexit(write_report);

}  // namespace

int generation() {
  static const int value = [] {
    const std::string text = environment("CIRRUS_FAKE_HPU_GENERATION");
    return text == "1" ? 1 : text == "3" ? 3 : 2;
  }();
  return value;
}

std::int64_t memory_limit() {
  const std::string text = environment("CIRRUS_FAKE_HPU_MEMORY");
  if (!text.empty()) return std::atoll(text.c_str());
  return (generation() == 1 ? 32ll : generation() == 2 ? 96ll : 128ll) << 30;
}

bool has_fault(const std::string& name) { return environment("CIRRUS_FAKE_HPU_FAULT") == name; }

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  std::uint64_t z = hash + 0x9e3779b97f4a7c15u + word;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Recorder& Recorder::get() {
  static auto* recorder = new Recorder;  // never destroyed: the report is written after static destructors began
  return *recorder;
}

std::int64_t Recorder::step() const {
  const auto flushes = counts_.find("flushes");
  return steps_ > 0 ? steps_ : flushes == counts_.end() ? 0 : flushes->second;
}

void Recorder::operation(const std::string& name, std::uint64_t signature) {
  const std::lock_guard lock(mutex_);
  ++operations_[name];
  ++counts_["operations"];
  ++queued_;
  graph_ = mix(graph_, signature);
}

void Recorder::end_graph(GraphEnd why) {
  const std::lock_guard lock(mutex_);
  if (queued_ > 0) {
    ++counts_["graphs"];
    if (compiled_.insert(graph_).second) {
      ++counts_["compiles"];
      if (compiled_at_.size() < kLongestList) compiled_at_.push_back(step());
    }
    if (why != GraphEnd::flush) ++counts_["forced_flushes"];
  }
  graph_ = 0;
  queued_ = 0;
  if (why == GraphEnd::flush) ++counts_["flushes"];
  if (why == GraphEnd::host_read) {
    ++counts_["host_reads"];
    if (host_reads_at_.size() < kLongestList) host_reads_at_.push_back(step());
  }
}

void Recorder::fallback(const std::string& name) {
  end_graph(GraphEnd::fallback);
  const std::lock_guard lock(mutex_);
  ++fallbacks_[name];
  ++counts_["fallbacks"];
}

void Recorder::add(const std::string& what, std::int64_t n) {
  const std::lock_guard lock(mutex_);
  counts_[what] += n;
}

void Recorder::maximum(const std::string& what, std::int64_t value) {
  const std::lock_guard lock(mutex_);
  std::int64_t& v = counts_[what];
  v = std::max(v, value);
}

void Recorder::begin_step() {
  const std::lock_guard lock(mutex_);
  ++steps_;
  host_reads_before_step_ = counts_["host_reads"];
}

std::int64_t Recorder::count(const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (what == "steps") return steps_;
  if (what == "host_reads_in_step") return counts_["host_reads"] - host_reads_before_step_;
  if (what == "queued") return queued_;
  const auto it = counts_.find(what);
  if (it != counts_.end()) return it->second;
  const auto operation = operations_.find(what);
  if (operation != operations_.end()) return operation->second;
  const auto fallback = fallbacks_.find(what);
  return fallback == fallbacks_.end() ? 0 : fallback->second;
}

std::string Recorder::fallbacks() {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, n] : fallbacks_) out += name + " " + std::to_string(n) + "\n";
  return out;
}

void Recorder::reset() {
  const std::lock_guard lock(mutex_);
  const std::int64_t bytes = counts_["bytes"];
  counts_ = {{"bytes", bytes}, {"peak_bytes", bytes}};
  fallbacks_.clear();
  operations_.clear();
  compiled_at_.clear();
  host_reads_at_.clear();
  graph_ = 0;
  queued_ = steps_ = host_reads_before_step_ = 0;
}

std::string Recorder::json() {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  out << "{\"generation\": " << generation() << ", \"steps\": " << steps_ << ", \"counts\": " << object(counts_)
      << ", \"fallbacks\": " << object(fallbacks_) << ", \"operations\": " << object(operations_)
      << ", \"compiled_at\": " << array(compiled_at_) << ", \"host_reads_at\": " << array(host_reads_at_) << "}";
  return out.str();
}

}  // namespace fake_hpu

extern "C" {

std::int64_t fake_hpu_count(const char* what) { return fake_hpu::Recorder::get().count(what); }
void fake_hpu_reset() { fake_hpu::Recorder::get().reset(); }
void fake_hpu_begin_step() { fake_hpu::Recorder::get().begin_step(); }
/// Valid until the next call on this thread.
const char* fake_hpu_fallbacks() {
  thread_local std::string text;
  text = fake_hpu::Recorder::get().fallbacks();
  return text.c_str();
}
}
