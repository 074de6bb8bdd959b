// A program that tests start with several ranks: trains a small task under a parallel strategy into a folder, or takes
// its steps without the loop and prints what travelled and what was live as one JSON line.
//   parallel_probe OUT TASK key=value...
// Keys: those of probe_settings.h, and resume, measure, slow (seconds a step waits), kill (rank@step), term
// (rank@step).
#include <ATen/Parallel.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/errors.h"
#include "base/log.h"
#include "tests/train/probe_settings.h"
#include "train/run.h"

using namespace cirrus;

namespace {

/// What the loop asks of a task, plus what a test does to a rank at a step.
class Disturbed : public train::Task {
public:
  Disturbed(std::unique_ptr<train::Task> task, std::function<void(std::int64_t)> at_step)
      : task_(std::move(task)), at_step_(std::move(at_step)) {}
  std::vector<dist::Unit> units() override { return task_->units(); }
  void run_units_on(dist::UnitRunner* runner) override { task_->run_units_on(runner); }
  std::vector<std::string> unit_rows() override { return task_->unit_rows(); }
  void begin_step(std::int64_t step) override {
    at_step_(step);
    task_->begin_step(step);
  }
  void load(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) override {
    task_->load(step, first, count, batch);
  }
  at::Tensor loss(std::int64_t begin, std::int64_t count) override { return task_->loss(begin, count); }
  double terms(std::int64_t begin, std::int64_t count) override { return task_->terms(begin, count); }
  void after_update() override { task_->after_update(); }
  std::map<std::string, std::string> model_metadata(std::int64_t a, std::int64_t b) override {
    return task_->model_metadata(a, b);
  }
  std::string fingerprint() const override { return task_->fingerprint(); }

private:
  std::unique_ptr<train::Task> task_;
  std::function<void(std::int64_t)> at_step_;
};

nlohmann::json to_json(const dist::Traffic::Kind& k) {
  return {{"calls", k.calls}, {"bytes", k.bytes}, {"sent", k.sent}};
}

int probe(const Arguments& arguments) {
  const test::KeyValues s({arguments.words.begin() + 1, arguments.words.end()});
  at::set_num_threads(1);
  const dist::World world = dist::join_world();
  const train::TrainerOptions o = test::trainer_options(s, s.text("strategy", world.size > 1 ? "ddp" : "none").c_str());
  const auto here = [&](const char* key, std::int64_t step) {
    return s.text(key, "") == std::to_string(world.rank) + "@" + std::to_string(step);
  };
  Disturbed task(test::make_task(s), [&](std::int64_t step) {
    if (here("kill", step)) raise(SIGKILL);
    if (here("term", step)) raise(SIGTERM);
    std::this_thread::sleep_for(std::chrono::duration<double>(s.real("slow", 0)));
  });
  const std::filesystem::path out = arguments.words.at(0);
  std::ofstream(out / ("pid-" + std::to_string(world.rank))) << getpid() << std::endl;
  if (s.yes("measure")) {  // one step at a time, without the loop
    train::Run run(task, device::cpu(), o, out, world);
    for (std::int64_t step = 0; step < o.steps; ++step) {
      if (step + 1 == o.steps) run.parallel().reset_traffic();
      task.begin_step(step);
      run.advance();
    }
    run.parallel().finish();
    const dist::Traffic t = run.parallel().traffic();
    log::print(nlohmann::json{{"all_reduce", to_json(t.all_reduce)},
                              {"all_gather", to_json(t.all_gather)},
                              {"reduce_scatter", to_json(t.reduce_scatter)},
                              {"peak_live", run.parallel().peak_live_bytes()},
                              {"peak_memory", device::cpu().memory().peak_used}}
                   .dump());
    return 0;
  }
  const train::Outcome outcome = train::run_training(task, device::cpu(), world, o, out, s.yes("resume"));
  return outcome == train::Outcome::stopped ? static_cast<int>(ExitCode::stopped) : 0;
}

}  // namespace

int main(int argc, char** argv) { return test::run_probe("parallel_probe", probe, argc, argv); }
