// The training loop.
#include "train/trainer.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/progress.h"
#include "device/memory_error.h"
#include "train/records.h"
#include "train/run.h"
#include "train/stopping.h"

namespace cirrus::train {

nlohmann::json Task::state() const { return nlohmann::json::object(); }
void Task::prepare(const nlohmann::json*) {}

void check_options(const TrainerOptions& o, const dist::World& world) {
  if (o.batch < 1 || o.accumulation < 1 || o.batch % o.accumulation != 0)
    throw Error(ExitCode::config, "batch (" + std::to_string(o.batch) + ") must be a multiple of accumulation (" +
                                      std::to_string(o.accumulation) + ")");
  if (o.batch < world.size * o.accumulation)
    throw Error(ExitCode::config,
                "batch (" + std::to_string(o.batch) + ") is smaller than ranks (" + std::to_string(world.size) +
                    ") times accumulation (" + std::to_string(o.accumulation) + "): some would have nothing to do",
                "use fewer ranks, or a larger --set train.batch");
  dist::check_options(o.parallel, world);
}

namespace {

/// Measures on the lead what the task needs to know, and tells the others: processors differ in rounding.
void prepare_alike(Task& task, const dist::World& world) {
  if (world.is_lead()) task.prepare(nullptr);
  if (world.size == 1) return;
  const nlohmann::json state = nlohmann::json::parse(dist::broadcast_text(world, task.state().dump()));
  if (!world.is_lead()) task.prepare(&state);
}

}  // namespace

Outcome run_training(Task& task, device::Device& device, const dist::World& world, const TrainerOptions& options,
                     const std::filesystem::path& out, bool resume) {
  Stopping stopping(world, out, options.time_limit);
  check_options(options, world);
  Run run(task, device, options, out, world);
  const auto checkpoint = resume ? dist::find_checkpoint(out / "checkpoints", world) : std::nullopt;
  if (checkpoint) {
    run.restore(*checkpoint);
    const dist::Checkpoint& c = checkpoint->checkpoint();
    log::info("Resuming from step " + std::to_string(run.step()) +
              (c.world == world.size && c.strategy == options.parallel.strategy
                   ? ""
                   : ", written by " + std::to_string(c.world) + " rank(s) with " + c.strategy));
  } else {
    if (resume) log::warning("No checkpoint in " + (out / "checkpoints").string() + ": starting from step 0");
    prepare_alike(task, world);
  }
  std::optional<RecordFile> records;
  if (world.is_lead()) {
    if (!options.config.empty()) write_text(out / "config.toml", options.config, true);
    records.emplace(out / "train.jsonl", run.step());
  }
  std::optional<Progress> progress;  // begins with the first step: its set-up says nothing of the rate
  double last_checkpoint = steady_seconds(), record_start = steady_seconds(), data_seconds = 0;
  std::int64_t timed = run.step(), saved = run.step() > 0 ? run.step() : -1;
  const auto save = [&](bool last) {
    run.require_finite();
    run.save(last);
    saved = run.step();
    last_checkpoint = steady_seconds();
  };

  while (run.step() < options.steps) {
    dist::set_phase(world, "step " + std::to_string(run.step()));
    const double before = steady_seconds();
    // A request that comes while data are awaited ends the wait: all must agree to stop before this step then.
    task.begin_step(run.step());
    const bool due = before - last_checkpoint > 60 * options.checkpoint_minutes ||
                     (options.checkpoint_steps > 0 && run.step() % options.checkpoint_steps == 0);
    const Stopping::Decision decision = stopping.agree(due && run.step() > 0, 1.5 * run.save_seconds());
    if (!decision.stop.empty()) {
      if (run.step() != saved) save(true);
      run.finish();
      dist::barrier(world);
      log::info(decision.stop + " at step " + std::to_string(run.step()) + " of " + std::to_string(options.steps) +
                ": resume with --resume");
      return Outcome::stopped;
    }
    if (decision.checkpoint && run.step() != saved) save(false);
    data_seconds += steady_seconds() - before;
    if (!progress) progress.emplace("training", options.steps - run.step(), "steps");
    try {
      run.advance();
    } catch (const std::exception& e) {
      if (!device::is_out_of_memory(e)) throw;
      throw device::out_of_memory(
          e, device, "A step of " + std::to_string(options.batch / options.accumulation / world.size) + " samples",
          run.what_fits());
    }
    progress->advance();
    if (run.step() % options.record_steps == 0 || run.step() == options.steps) {
      const auto [loss, norm] = run.read();  // waits for the device: time is read after it
      const double n = static_cast<double>(run.step() - timed), seconds = steady_seconds() - record_start;
      Record r{run.step(),
               run.samples(),
               loss,
               learning_rate(options.optimizer, run.step() - 1, options.steps),
               norm,
               n * static_cast<double>(options.batch) / seconds,
               data_seconds / n,
               seconds / n};
      if (records) records->write(r);
      timed = run.step();
      data_seconds = 0;
      record_start = steady_seconds();
    }
  }
  if (run.step() != saved) {
    save(true);
  } else {
    run.finish();
    run.write_results();  // the run that wrote this checkpoint may have been killed before it wrote the model
  }
  dist::barrier(world);
  return Outcome::finished;
}

}  // namespace cirrus::train
