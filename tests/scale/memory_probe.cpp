// A program that plan_test starts with several ranks: trains a small model for a few steps with every tensor's memory
// counted, and prints the most bytes that were held at a time in the last step, what travelled in it, and the sizes
// that a plan is made from, as one JSON line.
//   memory_probe KIND key=value...
// KIND: blocks, decoder, edm, sr3. Keys: strategy, batch, accumulation, recompute, keep_frozen, prefetch, average,
// frozen, blocks, width, words, length, type (fp32, bf16), side.
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <ATen/Parallel.h>
#include <malloc.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "tests/scale/measured_models.h"
#include "train/memory_plan.h"
#include "train/run.h"

using namespace cirrus;

namespace {

std::atomic<std::int64_t> held{0}, most{0};

void release(void* data) {
  if (data == nullptr) return;
  held -= static_cast<std::int64_t>(malloc_usable_size(data));
  c10::free_cpu(data);
}

/// Counts what tensors hold, as the C library rounds it.
class Counting : public c10::Allocator {
public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = c10::alloc_cpu(bytes);
    if (data != nullptr) {
      const std::int64_t now = held += static_cast<std::int64_t>(malloc_usable_size(data));
      for (std::int64_t before = most; before < now && !most.compare_exchange_weak(before, now);) {
      }
    }
    return {data, data, &release, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

nlohmann::json to_json(const dist::Traffic::Kind& k) { return {{"bytes", k.bytes}, {"sent", k.sent}}; }

int probe(const Arguments& arguments) {
  static Counting counting;
  c10::SetCPUAllocator(&counting, 255);
  at::set_num_threads(1);
  test::Settings s(arguments.words);
  const dist::World world = dist::join_world();
  const train::TrainerOptions o = test::trainer_options(s, world.size);
  const std::unique_ptr<train::Task> task = test::make_task(s);
  train::Run run(*task, device::cpu(), o, "unused", world);
  for (std::int64_t step = 0; step < 3; ++step) {
    if (step == 2) {
      run.parallel().finish();
      run.parallel().reset_traffic();
      most = held.load();
    }
    task->begin_step(step);
    run.advance();
  }
  run.parallel().finish();
  const dist::Traffic t = run.parallel().traffic();
  log::print(nlohmann::json{{"peak", most.load()},
                            {"all_reduce", to_json(t.all_reduce)},
                            {"all_gather", to_json(t.all_gather)},
                            {"reduce_scatter", to_json(t.reduce_scatter)}}
                 .dump());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return test::run_probe("memory_probe", probe, argc, argv); }
