// One sum over the ranks before each step.
#include "train/stopping.h"

#include "base/clock.h"
#include "base/signals.h"

namespace cirrus::train {

Stopping::Stopping(const dist::World& world, const std::filesystem::path& out, double time_limit)
    : world_(world), file_(out / "stop"), started_(steady_seconds()), time_limit_(time_limit) {}

Stopping::Decision Stopping::agree(bool checkpoint_due, double reserve) {
  std::error_code ignored;
  const double now = steady_seconds();
  if (world_.is_lead() && now - looked_ > 1) {  // network disks are slow to ask
    looked_ = now;
    file_there_ = std::filesystem::exists(file_, ignored);
  }
  const bool out_of_time = time_limit_ > 0 && now - started_ + reserve > time_limit_;
  std::vector<double> votes{signals::stop_requested() != 0 ? 1.0 : 0.0, out_of_time ? 1.0 : 0.0,
                            file_there_ ? 1.0 : 0.0, world_.is_lead() && checkpoint_due ? 1.0 : 0.0};
  dist::sum_over_ranks(world_, votes);
  if (votes[2] > 0 && world_.is_lead()) std::filesystem::remove(file_, ignored);  // or it would stop the next run too
  return {votes[0] > 0   ? "Stop requested"
          : votes[1] > 0 ? "Time limit reached"
          : votes[2] > 0 ? "Stop requested by " + file_.string()
                         : "",
          votes[3] > 0};
}

}  // namespace cirrus::train
