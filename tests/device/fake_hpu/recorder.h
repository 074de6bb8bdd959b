// What the fake HPU counts: work, flushes, host reads, compiles, fallbacks. Read by tests through exported C functions
// and, where CIRRUS_FAKE_HPU_REPORT names a file, written there as JSON when the program ends.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake_hpu {

/// Why a graph of queued operations ended.
enum class GraphEnd { flush, host_read, fallback };

/// One a process. Operations may come from the autograd engine's threads.
class Recorder {
public:
  static Recorder& get();

  /// Queues an operation; `signature` hashes all of it that a compiled graph depends on.
  void operation(const std::string& name, std::uint64_t signature);
  /// Ends the graph; one whose sequence of signatures was never seen before is a compile.
  void end_graph(GraphEnd why);
  void fallback(const std::string& name);
  void add(const std::string& what, std::int64_t n = 1);
  void maximum(const std::string& what, std::int64_t value);
  void begin_step();
  std::int64_t count(const std::string& what);
  std::string fallbacks();  ///< "name count" a line, sorted by name
  void reset();             ///< all but the compiled graphs and the memory in use
  std::string json();

private:
  std::int64_t step() const;  ///< steps begun; flushes where none was

  std::mutex mutex_;
  std::map<std::string, std::int64_t> counts_, fallbacks_, operations_;
  std::vector<std::int64_t> compiled_at_, host_reads_at_;
  std::set<std::uint64_t> compiled_;
  std::uint64_t graph_ = 0;
  std::int64_t queued_ = 0, steps_ = 0, host_reads_before_step_ = 0;
};

int generation();                         ///< 1, 2 or 3, from CIRRUS_FAKE_HPU_GENERATION; 2 if unset
std::int64_t memory_limit();              ///< bytes, from CIRRUS_FAKE_HPU_MEMORY, else the generation's
bool has_fault(const std::string& name);  ///< CIRRUS_FAKE_HPU_FAULT is `name`

/// Mixes a word into a hash (splitmix64's finaliser).
std::uint64_t mix(std::uint64_t hash, std::uint64_t word);

}  // namespace fake_hpu
