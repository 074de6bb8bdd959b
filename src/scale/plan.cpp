// Rows of a plan, the choice among them, and what would help where nothing fits.
#include "scale/plan.h"

#include <algorithm>

#include "base/errors.h"
#include "device/device.h"
#include "scale/plan_published.h"

namespace cirrus::scale {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// TFLOP/s that computation reaches, and where the number comes from; 0 with the reason.
std::pair<double, std::string> rate_of(const PlanRequest& r, const Workload& w) {
  const double published = published_sr3_rate(r.device.name);
  if (w.kind == "sr3" && published > 0 && r.settings.dtype == at::kFloat && !r.given_rate) {
    const double each = (w.forward_flops + w.backward_flops) / static_cast<double>(w.samples);
    return {published * each * 1e-12, "fitted: the published rate of SR3 training on one such device"};
  }
  const double peak = r.device.peak(r.settings.dtype);
  if (peak <= 0)
    return {0, "no peak rate of " + r.device.name + " in " + device::dtype_name(r.settings.dtype) +
                   " is known: give --tflops"};
  char text[120];
  std::snprintf(text, sizeof text, "%.4g TFLOP/s peak, %.0f %% of it %s", peak, 100 * r.efficiency,
                r.given_rate ? "as given" : "assumed");
  return {peak * r.efficiency, text};
}

/// GB/s at which a rank of a group sends; 0: not known.
double bandwidth(const PlanRequest& r, int members, int per_host) {
  const int here = std::min(members, per_host);
  const double within = here > 1 ? r.device.within(here) : 0;
  if (members <= per_host) return within * r.link_efficiency;
  const double between = r.device.between * r.link_efficiency;
  return here > 1 && within > 0 ? std::min(between, within * r.link_efficiency) : between;
}

std::optional<PlanSeconds> seconds_of(const Plan& plan, const PlanRow& row) {
  const PlanRequest& r = plan.request;
  const Workload& w = plan.workload;
  if (plan.rate <= 0) return std::nullopt;
  PlanSeconds s;
  const double rate = plan.rate * 1e12;
  const double forward = w.forward_flops / rate,
               backward = (w.backward_flops + (row.options.recompute ? w.forward_flops : 0)) / rate;
  s.compute = forward + backward;
  if (row.traffic.sent() == 0) return s;
  const bool hybrid = row.options.strategy == "hybrid";
  const int members = hybrid ? plan.ranks.per_host : plan.ranks.size;
  const double inner = 1e9 * bandwidth(r, members, plan.ranks.per_host),
               outer = 1e9 * r.device.between * r.link_efficiency;
  const bool needs_inner = row.traffic.sent() > row.traffic.across.sent;
  if ((needs_inner && inner <= 0) || (row.traffic.across.sent > 0 && outer <= 0)) return std::nullopt;
  const auto time = [](double bytes, double bandwidth) { return bytes > 0 ? bytes / bandwidth : 0; };
  const double reduce = time(row.traffic.all_reduce.sent + row.traffic.reduce_scatter.sent, inner),
               gather = time(row.traffic.all_gather.sent, inner), across = time(row.traffic.across.sent, outer);
  s.communication = reduce + gather + across;
  const std::string& strategy = row.options.strategy;
  if (strategy == "ddp") {  // gradients of the last part alone travel, while they are computed
    s.exposed = std::max(0.0, reduce - backward / static_cast<double>(w.size.accumulation));
  } else if (strategy == "zero1" || strategy == "zero2") {  // weights travel while the next step begins
    s.exposed = std::max(0.0, reduce - backward) + std::max(0.0, gather - forward);
  } else if (row.options.prefetch) {
    s.exposed = std::max(time(row.traffic.first, inner), reduce + gather - s.compute) + across;
  } else {
    s.exposed = gather + std::max(0.0, reduce - backward) + across;
  }
  return s;
}

/// The published engines' slow-down for gathering as many bytes as this row does, on the device they ran on.
std::optional<double> fitted_step(const Plan& plan, const PlanRow& row) {
  const std::string& strategy = row.options.strategy;
  const int n = plan.ranks.size;
  if (plan.request.device.name != "gaudi2" || plan.workload.kind != "language" || !row.seconds || n < 2 ||
      n > plan.ranks.per_host || (strategy != "zero3" && strategy != "fsdp"))
    return std::nullopt;
  // What the fit's unit, a step of data parallel of the published run, is for each byte gathered here.
  static const Workload published = [] {
    Settings s;
    s.batch = 2;
    s.accumulation = 2;
    s.lora_rank = 64;
    return language_workload(language_model("gemma2-27b"), s);
  }();
  dist::ParallelOptions o = row.options;
  o.keep_frozen = false;
  const double unit = (published.forward_flops + published.backward_flops) / (plan.rate * 1e12);
  const double bytes = train::plan_traffic(published.size, o, plan.ranks).all_gather.bytes;
  const SlowdownFit fit = fit_slowdown(strategy);
  return row.seconds->compute + unit * (fit.a + fit.b / n) * row.traffic.all_gather.bytes / bytes;
}

std::vector<PlanRow> rows_of(const Plan& plan) {
  dist::ParallelOptions wanted;
  wanted.prefetch = plan.request.prefetch;
  std::vector<PlanRow> rows;
  const bool may_recompute = plan.workload.size.units.size() > 1;
  for (const bool recompute : {false, true}) {
    if (recompute ? !may_recompute : plan.request.recompute && may_recompute) continue;
    wanted.recompute = recompute;
    for (const dist::ParallelOptions& o : train::candidates(plan.workload.size, wanted, plan.ranks)) {
      PlanRow row{o,
                  train::plan_memory(plan.workload.size, o, plan.ranks),
                  train::plan_traffic(plan.workload.size, o, plan.ranks),
                  {},
                  {},
                  false};
      row.fits = row.memory.total() <= plan.available;
      row.seconds = seconds_of(plan, row);
      row.fitted = fitted_step(plan, row);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string gib(double bytes) {
  char text[40];
  std::snprintf(text, sizeof text, bytes < 10 * kGiB ? "%.2f GiB" : "%.1f GiB", bytes / kGiB);
  return text;
}

/// Whether some strategy fits with other settings.
bool fits(PlanRequest r) {
  const Workload w = workload(r.model, r.settings);
  const train::Ranks ranks{r.world, std::min(r.world, r.per_host)};
  dist::ParallelOptions wanted;
  wanted.prefetch = r.prefetch;
  wanted.recompute = r.recompute;
  return train::advise(w.size, wanted, ranks, r.device.memory * kGiB * (1 - r.reserve)).fits;
}

/// What would make the run fit: a sentence.
std::string remedies(const Plan& plan, bool asked) {
  std::vector<std::string> ways;
  const PlanRequest& r = plan.request;
  if (asked && plan.advised) return "use " + dist::strategy_name(plan.rows[*plan.advised].options) + ", which fits";
  for (std::int64_t batch = r.settings.batch / 2; batch >= 1; batch /= 2) {
    PlanRequest smaller = r;
    smaller.settings.batch = batch;
    if (!fits(smaller)) continue;
    ways.push_back("--batch " + std::to_string(batch));
    break;
  }
  for (int world = 2 * r.world; world <= 1024; world *= 2) {
    PlanRequest more = r;
    more.world = world;
    if (!fits(more)) continue;
    ways.push_back("--world " + std::to_string(world));
    break;
  }
  if (plan.workload.kind == "language" && r.settings.lora_rank == 0) {
    PlanRequest adapters = r;
    adapters.settings.lora_rank = 16;
    if (fits(adapters)) ways.emplace_back("--lora 16");
  }
  if (plan.workload.kind == "language" && r.settings.logits_chunk == 0) {
    PlanRequest chunks = r;
    chunks.settings.logits_chunk = 512;
    if (fits(chunks)) ways.emplace_back("--logits-chunk 512");
  }
  for (int world = r.world; ways.empty() && world <= 1024; world *= 2) {  // nothing by itself
    PlanRequest both = r;
    both.world = world;
    both.settings.batch = 1;
    if (fits(both)) return "--world " + std::to_string(world) + " with --batch 1 would fit";
  }
  if (ways.empty()) return "a device with more memory is needed";
  std::string text = "these would fit, each by itself: ";
  for (std::size_t i = 0; i < ways.size(); ++i) text += (i > 0 ? ", " : "") + ways[i];
  return text;
}

/// What fits too and should take clearly less time, if anything does.
std::string faster(const Plan& plan, const PlanRow& than) {
  const PlanRow* best = &than;
  for (const PlanRow& row : plan.rows)
    if (row.fits && row.seconds && than.seconds && row.seconds->step() < 0.9 * best->seconds->step()) best = &row;
  if (best == &than) return "";
  char text[120];
  std::snprintf(text, sizeof text, "; %s should be faster: %.3g s a step against %.3g s",
                dist::strategy_name(best->options).c_str(), best->seconds->step(), than.seconds->step());
  return text;
}

void choose(Plan& plan) {
  for (std::size_t i = 0; i < plan.rows.size() && !plan.advised; ++i)
    if (plan.rows[i].fits) plan.advised = i;
  if (plan.advised) {
    const PlanRow& row = plan.rows[*plan.advised];
    plan.advice = dist::strategy_name(row.options) + ": " +
                  (*plan.advised == 0 ? "every rank can hold the whole model, and nothing sends less"
                                      : "the least sharding that fits") +
                  ", " + gib(row.memory.total()) + " of " + gib(plan.available) + " a rank" + faster(plan, row);
  }
  const std::string& asked = plan.request.strategy;
  if (asked.empty() && plan.advised) return;
  const PlanRow* least = nullptr;
  for (const PlanRow& row : plan.rows) {
    const bool keeps = plan.request.keep_frozen && (asked == "fsdp" || asked == "zero3" || asked == "hybrid");
    if (!asked.empty() && (row.options.strategy != asked || row.options.keep_frozen != keeps)) continue;
    if (row.fits && row.options.recompute == plan.request.recompute) return;
    if (row.options.recompute != plan.request.recompute && !asked.empty()) continue;
    if (least == nullptr || row.memory.total() < least->memory.total()) least = &row;
  }
  if (least == nullptr)
    throw Error(ExitCode::usage, "Strategy " + asked + " is not among those of " + std::to_string(plan.ranks.size) +
                                     " rank(s) in hosts of " + std::to_string(plan.ranks.per_host));
  plan.refusal = std::string(asked.empty() ? "nothing fits: even " : "") + dist::strategy_name(least->options) +
                 " needs " + gib(least->memory.total()) + " a rank, " + gib(least->memory.total() - plan.available) +
                 " more than the " + gib(plan.available) + " there are; " + remedies(plan, !asked.empty());
}

}  // namespace

Plan make_plan(const PlanRequest& request) {
  Plan plan;
  plan.request = request;
  PlanRequest& r = plan.request;
  if (r.world < 1) throw Error(ExitCode::usage, "--world must be at least 1");
  if (r.per_host == 0) r.per_host = r.device.per_host;
  plan.ranks = {r.world, std::min(r.world, r.per_host)};
  if (r.world > plan.ranks.per_host && r.world % plan.ranks.per_host != 0)
    throw Error(ExitCode::usage,
                std::to_string(r.world) + " ranks do not fill hosts of " + std::to_string(plan.ranks.per_host),
                "use a multiple, or give --ranks-per-host");
  plan.workload = workload(r.model, r.settings);
  if (r.settings.batch == 0) r.settings.batch = plan.workload.samples / plan.workload.size.accumulation;
  plan.available = r.device.memory * kGiB * (1 - r.reserve);
  std::tie(plan.rate, plan.rate_source) = rate_of(r, plan.workload);
  plan.rows = rows_of(plan);
  choose(plan);
  return plan;
}

}  // namespace cirrus::scale
