// The plan of a training run: what each strategy takes of a rank's memory, what it sends, how long a step should take,
// and which one to use. `cirrus-scale plan` prints it; docs/planning.md explains it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "scale/plan_devices.h"
#include "scale/plan_models.h"

namespace cirrus::scale {

struct PlanRequest {
  std::string model;
  Settings settings;
  PlanDevice device;
  int world = 1, per_host = 0;   ///< per_host 0: the device's own, at most `world`
  double reserve = 0.08;         ///< share of the memory left to the system, the allocator and collectives
  double efficiency = 0.4;       ///< of the peak rate that computation is expected to reach
  double link_efficiency = 0.8;  ///< of the links' rates
  bool prefetch = true;
  bool recompute = false;    ///< every row with recomputation; else rows without and rows with it
  std::string strategy;      ///< the one asked for; "": whichever is advised
  bool keep_frozen = false;  ///< of the one asked for
  bool given_rate = false;   ///< the device's peak or the efficiency is the user's: published rates are not used
};

struct PlanSeconds {
  double compute = 0, communication = 0, exposed = 0;  ///< exposed: what computation does not hide
  double step() const { return compute + exposed; }
};

struct PlanRow {
  dist::ParallelOptions options;
  train::MemoryPlan memory;
  train::TrafficPlan traffic;
  std::optional<PlanSeconds> seconds{};  ///< none where a rate is not known
  std::optional<double> fitted{};        ///< seconds of a step by the slow-down of published engines
  bool fits = false;
};

struct Plan {
  PlanRequest request;
  Workload workload;
  train::Ranks ranks;
  double available = 0;     ///< bytes a rank
  std::string rate_source;  ///< where the seconds' rate comes from, or why there is none
  double rate = 0;          ///< TFLOP/s that computation is expected to reach
  std::vector<PlanRow> rows;
  std::optional<std::size_t> advised{};  ///< row; none if nothing fits
  std::string advice;                    ///< a sentence, with the reason
  std::string refusal;                   ///< what does not fit, by how much, and what would help; "" if it does
};

/// Throws Error(usage) for what cannot be asked.
Plan make_plan(const PlanRequest& request);

nlohmann::json to_json(const Plan& plan);
/// The same for people.
std::string to_text(const Plan& plan);

}  // namespace cirrus::scale
