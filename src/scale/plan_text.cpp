// A plan as JSON and as a table.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "scale/plan.h"
#include "scale/plan_published.h"

namespace cirrus::scale {
namespace {

using nlohmann::json;

constexpr double kGiB = 1024.0 * 1024 * 1024;

json memory_json(const train::MemoryPlan& m) {
  return {{"weights", m.weights},
          {"master_copies", m.copies},
          {"moments", m.moments},
          {"average", m.average},
          {"gradients", m.gradients},
          {"gathered", m.gathered},
          {"travelling", m.travelling},
          {"activations", m.activations},
          {"head", m.head},
          {"working", m.working},
          {"inputs", m.inputs},
          {"total", m.total()},
          {"checkpoint_copy_on_host", m.checkpoint_copy}};
}

json kind_json(const train::TrafficPlan::Kind& k) { return {{"bytes", k.bytes}, {"sent", k.sent}}; }

json fit_json(const std::string& strategy) {
  const SlowdownFit fit = fit_slowdown(strategy);
  json residuals = json::object();
  for (const auto& [n, r] : fit.residuals) residuals[std::to_string(n)] = r;
  return {{"a", fit.a}, {"b", fit.b}, {"residuals", residuals}};
}

std::string printed(const char* format, auto... values) {
  char text[400];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

bool has_fit(const Plan& plan) {
  return std::any_of(plan.rows.begin(), plan.rows.end(), [](const PlanRow& r) { return r.fitted.has_value(); });
}

std::string residual_text(const std::string& strategy) {
  std::string text = strategy + " ";
  for (const auto& [n, r] : fit_slowdown(strategy).residuals) text += printed("%+.0f %% on %d, ", 100 * r, n);
  return text.substr(0, text.size() - 2);
}

}  // namespace

json to_json(const Plan& plan) {
  const PlanRequest& r = plan.request;
  const Workload& w = plan.workload;
  json out{{"format", "cirrus-plan/1"},
           {"model",
            {{"name", w.name},
             {"kind", w.kind},
             {"parameters", w.parameters},
             {"trained", w.size.trained_elements()},
             {"frozen", w.size.frozen_elements()},
             {"forward_flops", w.forward_flops},
             {"backward_flops", w.backward_flops},
             {"samples_a_step_and_rank", w.samples},
             {"settings", w.describes}}},
           {"device",
            {{"name", r.device.name},
             {"memory", r.device.memory * kGiB},
             {"source", r.device.source},
             {"rate_tflops", plan.rate > 0 ? json(plan.rate) : json()},
             {"rate_source", plan.rate_source}}},
           {"dtype", device::dtype_name(r.settings.dtype)},
           {"world", plan.ranks.size},
           {"ranks_per_host", plan.ranks.per_host},
           {"available", plan.available},
           {"rows", json::array()},
           {"advice", nullptr},
           {"fits", plan.refusal.empty()},
           {"refusal", plan.refusal.empty() ? json() : json(plan.refusal)}};
  for (const PlanRow& row : plan.rows) {
    json one{{"strategy", row.options.strategy},
             {"keep_frozen", row.options.keep_frozen},
             {"recompute", row.options.recompute},
             {"fits", row.fits},
             {"memory", memory_json(row.memory)},
             {"traffic",
              {{"all_reduce", kind_json(row.traffic.all_reduce)},
               {"all_gather", kind_json(row.traffic.all_gather)},
               {"reduce_scatter", kind_json(row.traffic.reduce_scatter)},
               {"across_hosts", kind_json(row.traffic.across)},
               {"sent", row.traffic.sent()}}},
             {"seconds", nullptr}};
    if (row.seconds)
      one["seconds"] = {{"compute", row.seconds->compute},
                        {"communication", row.seconds->communication},
                        {"exposed", row.seconds->exposed},
                        {"step", row.seconds->step()}};
    if (row.fitted) one["fitted_step_seconds"] = *row.fitted;
    out["rows"].push_back(std::move(one));
  }
  if (plan.advised) {
    const PlanRow& row = plan.rows[*plan.advised];
    out["advice"] = {{"strategy", row.options.strategy},
                     {"keep_frozen", row.options.keep_frozen},
                     {"recompute", row.options.recompute},
                     {"reason", plan.advice}};
  }
  if (has_fit(plan))
    out["fitted"] = {{"what", "slow-down of the published engines against data parallel, Gemma2-27B LoRA on Gaudi 2"},
                     {"zero3", fit_json("zero3")},
                     {"fsdp", fit_json("fsdp")}};
  return out;
}

std::string to_text(const Plan& plan) {
  const PlanRequest& r = plan.request;
  const Workload& w = plan.workload;
  std::string text;
  const auto line = [&](const std::string& l) { text += l + "\n"; };
  line(printed("%s: %.0f parameters, %.0f trained; %s, %s", w.name.c_str(), static_cast<double>(w.parameters),
               static_cast<double>(w.size.trained_elements()), w.describes.c_str(),
               device::dtype_name(r.settings.dtype).c_str()));
  line(printed("%d x %s, %d a host: %.1f GiB each, %.1f GiB of it for the run", plan.ranks.size,
               r.device.full_name.c_str(), plan.ranks.per_host, r.device.memory, plan.available / kGiB));
  if (!r.device.source.empty()) line("  " + r.device.source);
  line("  rate: " + plan.rate_source);
  line("");
  const bool fitted = has_fit(plan);
  double most = 0;
  for (const PlanRow& row : plan.rows) most = std::max(most, row.memory.total());
  const bool small = most < kGiB;
  const double unit = small ? kGiB / 1024 : kGiB;
  line(printed("%-29s %8s %8s %8s %8s %8s %8s %8s %8s %8s  %8s %8s %8s%s", small ? "MiB a rank" : "GiB a rank",
               "weights", "masters", "moments", "gradient", "gathered", "activat.", "logits", "working", "total",
               "GB sent", "compute", "step s", fitted ? "   fitted" : ""));
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    const train::MemoryPlan& m = row.memory;
    const auto g = [unit](double bytes) { return bytes / unit; };
    std::string l = printed("%-29s %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f%s",
                            dist::strategy_name(row.options).c_str(), g(m.weights), g(m.copies),
                            g(m.moments + m.average), g(m.gradients + m.travelling), g(m.gathered), g(m.activations),
                            g(m.head), g(m.working + m.inputs), g(m.total()), row.fits ? "  " : " !");
    l += printed("%8.3f", row.traffic.sent() * 1e-9);
    l += row.seconds ? printed(" %8.3f %8.3f", row.seconds->compute, row.seconds->step())
                     : printed(" %8s %8s", "-", "-");
    if (row.fitted) l += printed(" %8.3f", *row.fitted);
    line(l + (plan.advised == i ? "  <- advised" : ""));
  }
  line("");
  line("! does not fit. masters: weights once more in fp32; moments with the average; gathered: units live at a time.");
  line(printed("A checkpoint that is written in the background takes %.2f %s of a host's memory for each rank.",
               plan.rows[plan.advised.value_or(0)].memory.checkpoint_copy / unit, small ? "MiB" : "GiB"));
  if (fitted)
    line(
        "fitted: seconds of a step with the published engines' slow-down against data parallel (Gemma2-27B LoRA, "
        "Gaudi 2); fitted over published: " +
        residual_text("zero3") + "; " + residual_text("fsdp"));
  if (!plan.advice.empty()) line("Advice: " + plan.advice);
  return text;
}

}  // namespace cirrus::scale
