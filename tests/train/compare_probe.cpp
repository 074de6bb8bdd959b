// A program that tests start with several ranks: trains small tasks by several strategies, and each in the lead alone,
// and prints how far the weights end up apart: one JSON line a case and strategy.
//   compare_probe STRATEGY,STRATEGY... TASK key=value... [/ TASK key=value...]...
// Keys: those of probe_settings.h.
#include <ATen/Parallel.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/log.h"
#include "tests/train/probe_settings.h"
#include "train/run.h"

using namespace cirrus;

namespace {

using Words = std::vector<std::string>;

/// Whole parameters after the steps, on the lead.
std::map<std::string, at::Tensor> trained(const test::KeyValues& s, const std::string& strategy,
                                          const dist::World& world) {
  const std::unique_ptr<train::Task> task = test::make_task(s);
  train::TrainerOptions o = test::trainer_options(s, strategy);
  if (strategy == "none") o.parallel.recompute = false;
  train::Run run(*task, device::cpu(), o, "unused", world);
  for (std::int64_t step = 0; step < o.steps; ++step) {
    task->begin_step(step);
    run.advance();
  }
  run.parallel().finish();
  std::map<std::string, at::Tensor> all;
  run.parallel().consolidate(run.parallel().weights(), [&](std::size_t i, const at::Tensor& whole) {
    all[run.parallel().parameters()[i].name] = whole.to(at::kDouble, false, true);
  });
  return all;
}

struct Difference {
  double largest = 0;  ///< over the largest value of its tensor
  std::string where;
  double norm = 0;  ///< of all weights, over their norm
};

Difference difference(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  Difference d;
  double squares = 0, of_all = 0;
  for (const auto& [name, t] : a) {
    const at::Tensor off = t - b.at(name);
    const double found = off.abs().max().item<double>() / std::max(t.abs().max().item<double>(), 1e-30);
    if (found > d.largest) d.largest = found, d.where = name;
    squares += off.square().sum().item<double>();
    of_all += t.square().sum().item<double>();
  }
  d.norm = std::sqrt(squares / of_all);
  return d;
}

int probe(const Arguments& arguments) {
  at::set_num_threads(1);
  const dist::World world = dist::join_world();
  Words strategies;
  std::istringstream list(arguments.words.at(0));
  for (std::string one; std::getline(list, one, ',');) strategies.push_back(one);
  for (std::size_t at = 1; at < arguments.words.size(); ++at) {
    Words words;
    for (; at < arguments.words.size() && arguments.words[at] != "/"; ++at) words.push_back(arguments.words[at]);
    const test::KeyValues s(words);
    std::map<std::string, at::Tensor> alone;
    if (world.is_lead()) alone = trained(s, "none", dist::World{});
    std::string what;
    for (const std::string& word : words) what += word + " ";
    for (const std::string& strategy : strategies) {
      const auto together = trained(s, strategy, world);
      if (!world.is_lead()) continue;
      const Difference d = difference(alone, together);
      log::print(nlohmann::json{{"case", what + strategy}, {"largest", d.largest}, {"where", d.where}, {"norm", d.norm}}
                     .dump());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return test::run_probe("compare_probe", probe, argc, argv); }
