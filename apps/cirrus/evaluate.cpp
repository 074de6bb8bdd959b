// cirrus evaluate: how well methods recover maps whose truth is known.
#include <nlohmann/json.hpp>

#include "apps/cirrus/machine.h"
#include "apps/cirrus/verbs.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/run_options.h"
#include "base/signals.h"
#include "dist/world.h"
#include "enhance/evaluation_case.h"
#include "enhance/report.h"

namespace cirrus::app {
namespace {

struct EvaluateFlags {
  std::vector<std::string> truths, pair,
      methods{"bicubic", "lanczos", "spline", "wiener", "regression", "sample", "mean"};
  std::string set, mode = "both", degrade, require, output, model;
  std::int64_t factor = 4, steps = 16;
  enhance::EnhanceOptions options;
};

void register_flags(Options& options, EvaluateFlags& f) {
  options.positionals("TRUTH.fits", f.truths, "maps that are degraded and recovered", 0);
  options.group("Input");
  options.add("pair", f.pair, "a low-resolution map and its truth").words(2).metavar("LR.fits HR.fits");
  options.add("set", f.set, "folder of files NN_truth.fits, NN_block_x4.fits, NN_beam_x4.fits").metavar("DIR");
  options.add("mode", f.mode, "how truths are degraded, or which maps of a set are taken")
      .one_of({"block", "beam", "both"});
  options.add("degrade", f.degrade, "beam and noise in beam mode: beam=FWHM,noise=SIGMA")
      .metavar("beam=FWHM,noise=SIGMA");
  options.group("Output");
  options.add("output", f.output, "report").short_flag('o').metavar("report.html");
  options.add("require", f.require, "bounds on the means; exit 1 if one is not met").metavar("FILE.toml");
  options.group("Evaluation");
  options.add("factor", f.factor, "upscaling factor").range(2, 16);
  options.add("methods", f.methods, "what is compared")
      .one_of({"bicubic", "lanczos", "spline", "wiener", "regression", "sample", "mean"});
  options.add("model", f.model, "model by name or file")
      .metavar("NAME|FILE")
      .default_text("the shipped one of the factor");
  options.add("members", f.options.members, "ensemble members").range(1, 1024);
  options.add("steps", f.steps, "sampler steps").range(2, 1000);
  options.add("sampler", f.options.sampler.name, "sampler of the ensemble; ddpm: that of sr3 networks")
      .one_of({"dpmpp", "heun", "euler", "ddpm"});
  options.add("churn", f.options.sampler.churn, "stochasticity of euler and heun").range(0, 1000);
  options.add("sigma_max", f.options.sampler.sigma_max, "noise level at which sampling begins").range(0.1, 1000);
}

std::vector<enhance::MapToEvaluate> cases_of(const EvaluateFlags& f, std::uint64_t seed) {
  const int sources =
      static_cast<int>(!f.truths.empty()) + static_cast<int>(!f.pair.empty()) + static_cast<int>(!f.set.empty());
  if (sources != 1) throw Error(ExitCode::usage, "Give exactly one of TRUTH.fits, --pair and --set");
  if (!f.pair.empty()) return {enhance::paired_case(f.pair[0], f.pair[1])};
  std::vector<enhance::MapToEvaluate> cases;
  for (const std::string mode : {"block", "beam"}) {
    if (f.mode != "both" && f.mode != mode) continue;
    if (!f.set.empty()) {
      for (auto& c : enhance::set_cases(f.set, mode, f.factor)) cases.push_back(std::move(c));
    } else {
      for (const std::string& truth : f.truths)
        cases.push_back(enhance::degraded_case(truth, f.factor, mode, enhance::parse_degrading(f.degrade), seed));
    }
  }
  return cases;
}

}  // namespace

int evaluate(const Arguments& arguments) {
  EvaluateFlags f;
  RunOptions run;
  Options options("cirrus evaluate", "Measure how well methods recover maps whose truth is known.");
  register_flags(options, f);
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  dist::require_single(dist::join_world(), "Evaluating");
  f.options.seed = static_cast<std::uint64_t>(run.seed);
  f.options.sampler.steps = static_cast<int>(f.steps);
  const auto requirements =
      f.require.empty() ? std::vector<enhance::Requirement>{} : enhance::read_requirements(f.require);
  if (!f.output.empty()) require_writable_output(f.output, run.overwrite);
  const Machine machine = open_machine(run);

  std::vector<enhance::NamedMethod> methods;
  std::vector<std::string> learned;
  for (const std::string& name : f.methods) {
    if (name == "regression" || name == "sample" || name == "mean")
      learned.push_back(name);
    else
      methods.push_back(enhance::baseline_method(name));
  }
  enhance::ReportText text;
  enhance::Model model;
  if (!learned.empty()) {
    model = open_model(f.model, f.factor, options.given("factor"), machine);
    f.factor = model.factor;
    check_sampler(f.options.sampler, model, options.given("steps"));
    for (auto& m : enhance::model_methods(learned, model, f.options)) methods.push_back(std::move(m));
    text.notes.push_back("Model " + model.name + " (sha256 " + model.sha256.substr(0, 16) + "), " +
                         std::to_string(f.options.members) + " members of " +
                         std::to_string(diffusion::evaluations(f.options.sampler)) + " evaluations, " +
                         machine.device->name() + ", " + device::dtype_name(machine.dtype) + ".");
  }
  const std::vector<enhance::MapToEvaluate> cases = cases_of(f, f.options.seed);
  if (run.dry_run) {
    log::print("would evaluate " + std::to_string(methods.size()) + " methods on " + std::to_string(cases.size()) +
               " maps");
    return 0;
  }
  enhance::Evaluation evaluation;
  {
    Progress progress("evaluating", static_cast<std::int64_t>(cases.size()), "maps");
    for (const enhance::MapToEvaluate& c : cases) {
      signals::check_interrupt();
      evaluation.maps.push_back(enhance::evaluate(c, methods, !f.output.empty()));
      progress.advance();
    }
  }
  const std::vector<std::string> unmet = enhance::unmet(evaluation, requirements);
  log::print(enhance::table(evaluation));
  for (const std::string& sentence : unmet) log::print("not met: " + sentence);
  if (!f.output.empty()) {
    std::string command = "cirrus evaluate";
    for (const std::string& word : arguments.words)
      command += " " + word.substr(word.rfind('/') == std::string::npos ? 0 : word.rfind('/') + 1);
    text.commands = {command};
    text.had_requirements = !requirements.empty();
    text.unmet = unmet;
    write_text(f.output, enhance::html_report(evaluation, text), run.overwrite);
    log::print(f.output);
  }
  if (run.json) {
    nlohmann::ordered_json json = enhance::to_json(evaluation);
    json["unmet"] = unmet;
    log::print_json(json.dump());
  }
  return static_cast<int>(unmet.empty() ? ExitCode::ok : ExitCode::requirement);
}

}  // namespace cirrus::app
