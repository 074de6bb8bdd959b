// What collectives do and how much travels in them.
#pragma once

#include <cstdint>

namespace cirrus::dist {

enum class Reduce { sum, max };

/// What a rank has handed to collectives: calls, bytes of the whole tensor (the gathered or unreduced one), and bytes
/// this rank sends when they run as rings: all-reduce 2 (N-1)/N of the whole, all-gather and reduce-scatter (N-1)/N.
struct Traffic {
  struct Kind {
    std::int64_t calls = 0, bytes = 0, sent = 0;
  };
  Kind all_reduce, all_gather, reduce_scatter, broadcast, exchange;
};

}  // namespace cirrus::dist
