// Threads of a block as coroutines (ucontext): each runs until it waits, then the next one does.
#include "tests/gpu/emulated_device.h"

#include <ucontext.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace cirrus::device {
namespace {

constexpr std::size_t kStack = 128 * 1024;
constexpr unsigned kWarp = 32;

enum class State { running, at_barrier, at_exchange, done };

struct Coroutine {
  ucontext_t context{};
  std::unique_ptr<char[]> stack{new char[kStack]};
  EmulatedThread seen;
  State state = State::running;
  std::uint64_t given = 0, taken = 0;
  int mask = 0;
};

struct Block {
  ucontext_t scheduler{};
  std::vector<Coroutine> threads;
  std::size_t current = 0;
  const std::function<void()>* work = nullptr;
};
Block* block_now = nullptr;

void leave(State state) {
  Coroutine& self = block_now->threads[block_now->current];
  self.state = state;
  swapcontext(&self.context, &block_now->scheduler);
}

void enter() {
  (*block_now->work)();
  leave(State::done);
}

void start(Coroutine& t) {
  getcontext(&t.context);
  t.context.uc_stack.ss_sp = t.stack.get();
  t.context.uc_stack.ss_size = kStack;
  t.context.uc_link = nullptr;
  makecontext(&t.context, enter, 0);
  t.state = State::running;
}

/// Lets threads that wait go on, where all who must have come have come; false if none can.
bool release(Block& b) {
  bool any = false, all_at_barrier = true;
  for (const Coroutine& t : b.threads)
    all_at_barrier = all_at_barrier && (t.state == State::at_barrier || t.state == State::done);
  if (all_at_barrier) {
    for (const Coroutine& t : b.threads)
      if (t.state == State::done) {
        for (const Coroutine& other : b.threads)
          if (other.state == State::at_barrier)
            throw std::logic_error("a barrier that not all threads of the block reach");
        return false;
      }
    for (Coroutine& t : b.threads) t.state = State::running;
    return true;
  }
  for (std::size_t warp = 0; warp < b.threads.size(); warp += kWarp) {
    const std::size_t end = std::min<std::size_t>(warp + kWarp, b.threads.size());
    bool all = true;
    for (std::size_t i = warp; i < end; ++i) all = all && b.threads[i].state == State::at_exchange;
    if (!all) continue;
    if (end - warp != kWarp) throw std::logic_error("a shuffle in a warp of fewer than 32 threads");
    for (std::size_t i = warp; i < end; ++i) {
      Coroutine& t = b.threads[i];
      t.taken = b.threads[warp + ((i - warp) ^ static_cast<std::size_t>(t.mask))].given;
      t.state = State::running;
    }
    any = true;
  }
  return any;
}

void run_block(Block& b) {
  for (;;) {
    bool done = true;
    for (b.current = 0; b.current < b.threads.size(); ++b.current) {
      if (b.threads[b.current].state == State::running) swapcontext(&b.scheduler, &b.threads[b.current].context);
      done = done && b.threads[b.current].state == State::done;
    }
    if (done) return;
    if (!release(b)) throw std::logic_error("threads wait for others that never come");
  }
}

}  // namespace

EmulatedThread& emulated_thread() { return block_now->threads[block_now->current].seen; }

void emulated_barrier() { leave(State::at_barrier); }

std::uint64_t emulated_exchange(std::uint64_t bits, int mask) {
  Coroutine& self = block_now->threads[block_now->current];
  self.given = bits;
  self.mask = mask;
  leave(State::at_exchange);
  return self.taken;
}

void emulate(dim3 grid, dim3 block, const std::function<void()>& thread) {
  const unsigned threads = block.x * block.y * block.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.x > 2147483647u || grid.y == 0 || grid.y > 65535u ||
      grid.z == 0 || grid.z > 65535u)
    throw std::logic_error("a launch of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
                           std::to_string(grid.z) + " blocks of " + std::to_string(threads) + " threads");
  Block b;
  b.threads = std::vector<Coroutine>(threads);
  b.work = &thread;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        for (unsigned i = 0; i < threads; ++i) {
          Coroutine& t = b.threads[i];
          start(t);
          t.seen = {grid, block, dim3(x, y, z), dim3(i % block.x, i / block.x % block.y, i / block.x / block.y)};
        }
        block_now = &b;
        run_block(b);
      }
  block_now = nullptr;
}

}  // namespace cirrus::device
