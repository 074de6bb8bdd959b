// The training loop: it converges, it resumes at any step as if nothing had happened, it stops in order, and it trusts
// nothing broken.
#include "train/trainer.h"

#include <boost/test/unit_test.hpp>
#include <csignal>

#include "base/errors.h"
#include "base/signals.h"
#include "tests/base/exit_code_of.h"
#include "tests/base/scratch_folder.h"
#include "tests/device/recording_device.h"
#include "tests/train/quadratic_task.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;

train::TrainerOptions options(std::int64_t steps) {
  train::TrainerOptions o;
  o.steps = steps;
  o.batch = 4;
  o.record_steps = 5;
  o.checkpoint_minutes = 1e6;
  o.optimizer.learning_rate = 0.05;
  o.optimizer.warmup = 3;
  return o;
}

train::Outcome train_in(QuadraticTask& task, const fs::path& out, const train::TrainerOptions& o, bool resume = false) {
  const auto device = device::open_device("cpu");
  fs::create_directories(out);
  return train::run_training(task, *device, {}, o, out, resume);
}

std::vector<std::string> checkpoints(const fs::path& out) {
  std::vector<std::string> names;
  if (fs::exists(out / "checkpoints"))
    for (const auto& e : fs::directory_iterator(out / "checkpoints")) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<nlohmann::json> records(const fs::path& out) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(contents(out / "train.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<std::int64_t> steps_of(const std::vector<nlohmann::json>& lines) {
  std::vector<std::int64_t> steps;
  for (const auto& line : lines) steps.push_back(line.at("step"));
  return steps;
}

/// Forgets a stop request, whatever the test did.
struct NoStop {
  NoStop() { signals::request_stop(0); }
  ~NoStop() { signals::request_stop(0); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(trainer)

BOOST_AUTO_TEST_CASE(a_quadratic_is_solved) {
  const ScratchFolder folder;
  QuadraticTask task;
  train::TrainerOptions o = options(400);
  o.batch = 8;
  BOOST_TEST((train_in(task, folder.path(), o) == train::Outcome::finished));
  // Looks have noise 0.1, of which 8 are averaged a step and the cooled-down Adam averages dozens more.
  BOOST_TEST((task.position() - QuadraticTask::target()).abs().max().item<double>() < 0.05);
  const dist::TensorFile model = dist::load_tensors(folder / "model.safetensors");
  BOOST_TEST((model.get("position", {2, 3}) - QuadraticTask::target()).abs().max().item<double>() < 0.05);
  BOOST_TEST(std::abs(model.get("gain", {1}).item<double>() - 2) < 0.05);
  BOOST_TEST(model.metadata.at("step") == "400");
  BOOST_TEST(model.metadata.at("samples") == "3200");
  BOOST_TEST(task.updates == 400);
  const auto lines = records(folder.path());
  BOOST_TEST_REQUIRE(lines.size() == 80u);
  BOOST_TEST(lines.back().at("loss").get<double>() < 0.1 * lines.front().at("loss").get<double>());
  BOOST_TEST(lines.back().at("samples") == 3200);
  for (const char* key : {"lr", "grad_norm", "samples_per_s", "data_s", "step_s"})
    BOOST_TEST(lines[3].at(key).get<double>() >= 0, key);
  const std::string curves = contents(folder / "curves.svg");
  BOOST_TEST(curves.starts_with("<svg"));
  BOOST_TEST(curves.ends_with("</svg>\n"));
}

BOOST_AUTO_TEST_CASE(a_run_resumed_at_any_step_equals_an_uninterrupted_one_bit_for_bit) {
  const NoStop guard;
  const ScratchFolder whole;
  QuadraticTask straight;
  train_in(straight, whole.path(), options(12));
  const std::string model = contents(whole / "model.safetensors");
  for (std::int64_t stop = 0; stop <= 12; ++stop) {
    const ScratchFolder folder;
    QuadraticTask first, second;
    first.at_begin = [&](std::int64_t step) {
      if (step == stop) signals::request_stop(SIGTERM);
    };
    const train::Outcome outcome = train_in(first, folder.path(), options(12));
    BOOST_TEST((outcome == (stop < 12 ? train::Outcome::stopped : train::Outcome::finished)));
    signals::request_stop(0);
    BOOST_TEST((train_in(second, folder.path(), options(12), true) == train::Outcome::finished));
    BOOST_TEST(at::equal(second.position(), straight.position()), "stopped at " << stop);
    BOOST_TEST((contents(folder / "model.safetensors") == model), "stopped at " << stop);
    BOOST_TEST(second.begun.size() == static_cast<std::size_t>(12 - stop));
    if (stop < 12) BOOST_TEST(second.begun.front() == stop);
    // Records stand at the same steps and hold the same, however the stop divided what they average over.
    const auto found = records(folder.path()), expected = records(whole.path());
    BOOST_TEST((steps_of(found) == steps_of(expected)));
    for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
      for (const char* key : {"loss", "grad_norm", "samples"})
        BOOST_TEST(found[i].at(key) == expected[i].at(key), key << " of a run stopped at " << stop);
  }
}

BOOST_AUTO_TEST_CASE(a_stop_request_ends_after_the_step_with_a_checkpoint) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    const NoStop guard;
    const ScratchFolder folder;
    QuadraticTask task;
    task.at_load = [&](std::int64_t step) {
      if (step == 6) signals::request_stop(signal);
    };
    BOOST_TEST((train_in(task, folder.path(), options(100)) == train::Outcome::stopped));
    BOOST_TEST((checkpoints(folder.path()) == std::vector<std::string>{"step-00000007"}));
    BOOST_TEST(task.updates == 7);
    BOOST_TEST(dist::load_tensors(folder / "model.safetensors").metadata.at("step") == "7");
  }
}

BOOST_AUTO_TEST_CASE(the_time_limit_ends_with_a_checkpoint) {
  const ScratchFolder folder;
  train::TrainerOptions o = options(100);
  o.time_limit = 1e-9;  // over before the first step, whatever the machine
  QuadraticTask task, rest;
  BOOST_TEST((train_in(task, folder.path(), o) == train::Outcome::stopped));
  BOOST_TEST((checkpoints(folder.path()) == std::vector<std::string>{"step-00000000"}));
  o.time_limit = 1e9;
  o.steps = 3;
  BOOST_TEST((train_in(rest, folder.path(), o, true) == train::Outcome::finished));
  BOOST_TEST(rest.updates == 3);
}

BOOST_AUTO_TEST_CASE(checkpoints_come_every_so_many_steps_and_the_newest_two_are_kept) {
  const ScratchFolder folder;
  train::TrainerOptions o = options(13);
  o.checkpoint_steps = 4;
  QuadraticTask task;
  train_in(task, folder.path(), o);
  BOOST_TEST((checkpoints(folder.path()) == std::vector<std::string>{"step-00000012", "step-00000013"}));
}

BOOST_AUTO_TEST_CASE(a_loss_or_gradient_that_is_not_finite_is_an_error_and_reaches_no_checkpoint) {
  for (const bool gradient : {false, true})
    for (const std::int64_t record_steps : {1, 1000}) {  // seen by a record, or by the next checkpoint
      const ScratchFolder folder;
      train::TrainerOptions o = options(100);
      o.record_steps = record_steps;
      o.checkpoint_steps = 5;
      QuadraticTask task;
      (gradient ? task.bad_gradient_at : task.bad_loss_at) = 9;
      std::string message;
      BOOST_TEST(exit_code_of([&] { train_in(task, folder.path(), o); }, &message) == ExitCode::internal);
      BOOST_TEST(message.find("step 10") != std::string::npos, message);
      BOOST_TEST((checkpoints(folder.path()) == std::vector<std::string>{"step-00000005"}));
      BOOST_TEST(
          dist::load_tensors(folder / "model.safetensors").get("position", {2, 3}).isfinite().all().item<bool>());
    }
}

BOOST_AUTO_TEST_CASE(another_configuration_is_refused_but_length_and_checkpoints_may_change) {
  const ScratchFolder folder;
  QuadraticTask task;
  train_in(task, folder.path(), options(6));
  const std::string before = contents(folder / "model.safetensors");
  const auto resumed = [&](const std::function<void(train::TrainerOptions&)>& change,
                           const std::string& kind = "quadratic") {
    train::TrainerOptions o = options(6);
    change(o);
    QuadraticTask again;
    again.kind = kind;
    std::string message;
    const ExitCode code = exit_code_of([&] { train_in(again, folder.path(), o, true); }, &message);
    if (code == ExitCode::config) BOOST_TEST(message.find("step 6") != std::string::npos, message);
    return code;
  };
  BOOST_TEST(resumed([](auto& o) { o.optimizer.learning_rate = 0.06; }) == ExitCode::config);
  BOOST_TEST(resumed([](auto& o) { o.optimizer.beta2 = 0.98; }) == ExitCode::config);
  BOOST_TEST(resumed([](auto& o) { o.optimizer.clip = 2; }) == ExitCode::config);
  BOOST_TEST(resumed([](auto& o) { o.optimizer.ema_gamma = 5; }) == ExitCode::config);
  BOOST_TEST(resumed([](auto& o) { o.batch = 8; }) == ExitCode::config);
  BOOST_TEST(resumed([](auto&) {}, "cubic") == ExitCode::config);
  BOOST_TEST((contents(folder / "model.safetensors") == before));
  BOOST_TEST(resumed([](auto& o) {
               o.steps = 8, o.checkpoint_steps = 3, o.record_steps = 2, o.keep = 5, o.optimizer.cooldown_share = 0.1;
             }) == ExitCode::ok);
  BOOST_TEST(dist::load_tensors(folder / "model.safetensors").metadata.at("step") == "8");
}

BOOST_AUTO_TEST_CASE(a_damaged_checkpoint_costs_only_the_steps_since_the_one_before) {
  const ScratchFolder folder, whole;
  train::TrainerOptions o = options(10);
  o.checkpoint_steps = 4;
  QuadraticTask straight, first, second;
  train_in(straight, whole.path(), o);
  train_in(first, folder.path(), o);
  put(folder / "checkpoints" / "step-00000010" / "rank-00000.safetensors", "damaged");
  train_in(second, folder.path(), o, true);
  BOOST_TEST(second.begun.front() == 8);
  BOOST_TEST((contents(folder / "model.safetensors") == contents(whole / "model.safetensors")));
  BOOST_TEST((checkpoints(folder.path()) == std::vector<std::string>{"step-00000008", "step-00000010"}));
}

BOOST_AUTO_TEST_CASE(a_run_whose_checkpoints_are_all_damaged_is_not_overwritten) {
  const ScratchFolder folder;
  QuadraticTask task, again;
  train_in(task, folder.path(), options(6));
  put(folder / "checkpoints" / "step-00000006" / "rank-00000.safetensors", "damaged");
  const std::string model = contents(folder / "model.safetensors");
  BOOST_TEST(exit_code_of([&] { train_in(again, folder.path(), options(6), true); }) == ExitCode::bad_data);
  BOOST_TEST(again.updates == 0);
  BOOST_TEST((contents(folder / "model.safetensors") == model));
  BOOST_TEST((checkpoints(folder.path()) == std::vector<std::string>{"step-00000006"}));
  // One that was cut off while it was written is none: a first checkpoint of a killed run.
  fs::remove(folder / "checkpoints" / "step-00000006" / "manifest.json");
  train_in(again, folder.path(), options(6), true);
  BOOST_TEST(again.updates == 6);
}

BOOST_AUTO_TEST_CASE(a_finished_run_whose_model_was_not_written_writes_it_on_resume) {
  const ScratchFolder folder;
  QuadraticTask task, again;
  train_in(task, folder.path(), options(6));
  const std::string model = contents(folder / "model.safetensors");
  fs::remove(folder / "model.safetensors");  // killed between the last checkpoint and the model
  BOOST_TEST((train_in(again, folder.path(), options(6), true) == train::Outcome::finished));
  BOOST_TEST(again.updates == 0);
  BOOST_TEST((contents(folder / "model.safetensors") == model));
}

BOOST_AUTO_TEST_CASE(resuming_where_nothing_is_starts_anew_with_a_warning) {
  const ScratchFolder folder;
  QuadraticTask task;
  const std::string warnings = printed(2, [&] { train_in(task, folder.path(), options(3), true); });
  BOOST_TEST(warnings.find("starting from step 0") != std::string::npos, warnings);
  BOOST_TEST(task.updates == 3);
}

BOOST_AUTO_TEST_CASE(accumulation_changes_memory_not_the_result) {
  const ScratchFolder a, b;
  train::TrainerOptions whole = options(20), parts = options(20);
  whole.batch = parts.batch = 8;
  parts.accumulation = 4;
  QuadraticTask one, four;
  train_in(one, a.path(), whole);
  train_in(four, b.path(), parts);
  // Sums in another order: float32 roundings, which Adam's first steps (a sign) do not blow up here.
  BOOST_TEST((one.position() - four.position()).abs().max().item<double>() < 1e-4);
  const double loss = records(a.path())[1].at("loss");
  BOOST_TEST(records(b.path())[1].at("loss").get<double>() == loss, boost::test_tools::tolerance(1e-4));
  parts.accumulation = 3;
  BOOST_TEST(exit_code_of([&] { train_in(four, b.path(), parts); }) == ExitCode::config);
}

BOOST_AUTO_TEST_CASE(several_processes_are_refused) {
  const ScratchFolder folder;
  QuadraticTask task;
  dist::World world;
  world.size = 2;
  const auto device = device::open_device("cpu");
  BOOST_TEST(exit_code_of([&] { train::run_training(task, *device, world, options(3), folder.path(), false); }) ==
             ExitCode::unavailable);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(records_file)

BOOST_AUTO_TEST_CASE(lines_after_the_resumed_step_and_torn_lines_are_dropped) {
  const NoStop guard;
  const ScratchFolder folder;
  QuadraticTask first, second;
  train::TrainerOptions o = options(20);
  first.at_begin = [](std::int64_t step) {
    if (step == 12) signals::request_stop(SIGTERM);
  };
  train_in(first, folder.path(), o);
  signals::request_stop(0);
  // What a run that was killed at step 16 or so leaves: a line after the checkpoint of step 12, half a line, and
  // foreign ones.
  const std::string kept = contents(folder / "train.jsonl");
  BOOST_TEST((steps_of(records(folder.path())) == std::vector<std::int64_t>{5, 10}));
  put(folder / "train.jsonl",
      kept + "{\"step\":\"x\"}\n[]\n\nnull\n7\n{\"loss\":1}\n{\"step\":3,\"samples\":null,\"loss\":null,\"lr\":1}\n" +
          "{\"step\":15,\"samples\":60,\"loss\":1.0,\"lr\":0.1}\n{\"step\":16,\"sam");
  train_in(second, folder.path(), o, true);
  BOOST_TEST((steps_of(records(folder.path())) == std::vector<std::int64_t>{5, 10, 15, 20}));
  BOOST_TEST(contents(folder / "train.jsonl").starts_with(kept));  // what stays, stays as it was written
  BOOST_TEST(records(folder.path())[2].at("samples") == 60);
}

BOOST_AUTO_TEST_CASE(a_new_run_begins_a_new_file) {
  const ScratchFolder folder;
  put(folder / "train.jsonl", "{\"step\":5,\"samples\":60,\"loss\":1.0,\"lr\":0.1}\n");
  QuadraticTask task;
  train_in(task, folder.path(), options(5));
  BOOST_TEST((steps_of(records(folder.path())) == std::vector<std::int64_t>{5}));
  BOOST_TEST(records(folder.path())[0].at("samples") == 20);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(recorded_steps)

BOOST_AUTO_TEST_CASE(a_device_that_records_gets_one_recording_and_replays_it) {
  const auto run = [](device::Device& device, bool capture) {
    const ScratchFolder folder;
    QuadraticTask task;
    train::TrainerOptions o = options(20);
    o.accumulation = 2;
    o.capture = capture;
    (void)train::run_training(task, device, {}, o, folder.path(), false);
    return task.position();
  };
  RecordingDevice recorder, refused, without(false);
  const at::Tensor recorded = run(recorder, true);
  BOOST_TEST(at::equal(recorded, run(device::cpu(), true)));
  BOOST_TEST(recorder.captures == 1);
  BOOST_TEST(recorder.replays == 17);  // after three steps that warm libraries up
  // What cannot be recorded runs as it is, and is not tried again; neither is what nobody wants recorded.
  BOOST_TEST(at::equal(recorded, run(without, true)));
  BOOST_TEST(without.captures == 1);
  BOOST_TEST(at::equal(recorded, run(refused, false)));
  BOOST_TEST(refused.captures == 0);
}

BOOST_AUTO_TEST_SUITE_END()
