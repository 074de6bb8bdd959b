// cirrus enhance: a FITS map in, a sharper one out.
#include <ATen/Parallel.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/cirrus/verbs.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/run_options.h"
#include "base/signals.h"
#include "device/device.h"
#include "dist/world.h"
#include "enhance/output.h"
#include "fits/names.h"
#include "fits/writer.h"

namespace cirrus::app {
namespace {

struct EnhanceFlags {
  std::vector<std::string> inputs;
  std::string hdu, output, model, preset = "default", tile = "auto", overlap = "auto";
  std::int64_t plane = 0;
  enhance::ObservationChoice choice;
  enhance::EnhanceOptions options;
  std::int64_t steps = 16;
  bool no_consistency = false, save_members = false, as_double = false, compress = false, no_png = false, drop_distortion = false;
};

void register_flags(Options& options, EnhanceFlags& f) {
  options.positionals("IN.fits", f.inputs, "maps: .fits, .gz, .fz, map.fits[EXT], - (stdin), @list.txt", 1);
  options.group("Input");
  options.add("hdu", f.hdu, "HDU by number or name").metavar("N|NAME").default_text("the first with a 2-D image");
  options.add("plane", f.plane, "plane of a cube, from 1").metavar("N").range(1);
  options.add("beam", f.choice.beam, "beam of the map: auto (header, else estimated), none (exact block mean), or its FWHM").metavar("FWHM");
  options.add("noise", f.choice.noise, "noise of the map: auto, or sigma in its unit").metavar("SIGMA");
  options.add("unit_type", f.choice.unit_type, "what BUNIT means").one_of({"auto", "brightness", "pixel", "beam"});
  options.add("drop_distortion", f.drop_distortion, "go on without lookup-table distortions that cannot be scaled");
  options.group("Output");
  options.add("output", f.output, "output map").short_flag('o').metavar("OUT.fits").default_text("<name>_x4.fits in this folder");
  options.add("beam_out", f.choice.beam_out, "FWHM of the output's beam").metavar("FWHM").default_text("2.3 output pixels");
  options.add("save_members", f.save_members, "write all ensemble members (extension MEMBERS)");
  options.add("double", f.as_double, "64-bit output");
  options.add("compress", f.compress, "lossless tile compression (GZIP_2)");
  options.add("no_png", f.no_png, "no quick-look picture");
  options.group("Super-resolution");
  options.add("factor", f.choice.factor, "output pixels along the side of an input pixel").range(2, 16);
  options.add("model", f.model, "model by name or file").metavar("NAME|FILE").default_text("the shipped one of the factor");
  options.add("preset", f.preset, "default: 8 members of 16 evaluations; fast: 4 of 8; best: 32 of 24").one_of({"default", "fast", "best"});
  options.add("members", f.options.members, "ensemble members").metavar("N").range(1, 1024);
  options.add("steps", f.steps, "sampler steps").metavar("N").range(2, 1000);
  options.add("sampler", f.options.sampler.name, "mean: one evaluation, the regression estimate").one_of({"dpmpp", "heun", "euler", "mean"});
  options.add("churn", f.options.sampler.churn, "stochasticity of euler and heun").metavar("X").range(0, 1000);
  options.add("sigma_max", f.options.sampler.sigma_max, "noise level at which sampling begins").metavar("X").range(0.1, 1000);
  options.add("tile", f.tile, "tile in output pixels, or auto: the whole map if it fits").metavar("N");
  options.add("overlap", f.overlap, "overlap of tiles: auto (half a tile), exact (receptive field), or output pixels").metavar("N");
  options.add("batch", f.options.batch, "tiles in one network call (0: by memory)").metavar("N").range(0, 4096);
  options.add("no_consistency", f.no_consistency, "leave out the agreement with the input").flag_only();
}

std::int64_t pixels_or(const std::string& text, const char* flag, std::initializer_list<std::pair<const char*, std::int64_t>> words) {
  for (const auto& [word, value] : words)
    if (text == word) return value;
  std::size_t used = 0;
  std::int64_t n = -1;
  try {
    n = std::stoll(text, &used);
  } catch (const std::exception&) {
  }
  if (used != text.size() || n < 0 || n > 1'000'000) throw Error(ExitCode::usage, std::string(flag) + " '" + text + "' is neither a number of pixels nor a word it knows");
  return n;
}

void apply_preset(EnhanceFlags& f, const Options& options) {
  const auto [members, steps] = f.preset == "fast" ? std::pair{4, 8} : f.preset == "best" ? std::pair{32, 24} : std::pair{8, 16};
  if (!options.given("members")) f.options.members = members;
  if (!options.given("steps")) f.steps = steps;
  f.options.sampler.steps = static_cast<int>(f.steps);
  f.options.tile = pixels_or(f.tile, "--tile", {{"auto", 0}});
  if (f.tile != "auto" && f.options.tile < 16) throw Error(ExitCode::usage, "--tile " + f.tile + " is too small", "use at least 16 output pixels");
  f.options.exact_overlap = f.overlap == "exact";
  f.options.overlap = pixels_or(f.overlap, "--overlap", {{"auto", -1}, {"exact", -1}});
  f.options.consistency = !f.no_consistency;
  if (f.inputs.size() > 1 && !f.output.empty()) throw Error(ExitCode::usage, "--output names one file, but there are " + std::to_string(f.inputs.size()) + " inputs", "leave it out: outputs are named after the inputs");
}

/// The command line as it goes into HISTORY: file names without their folders.
std::string public_command(const Arguments& arguments) {
  std::string command = "cirrus enhance";
  for (std::string word : arguments.words) {
    const auto equals = word.rfind("--", 0) == 0 ? word.find('=') : std::string::npos;
    const auto from = equals == std::string::npos ? 0 : equals + 1;
    if (const auto slash = word.rfind('/'); slash != std::string::npos && slash >= from) word.erase(from, slash + 1 - from);
    command += " " + word;
  }
  return command;
}

std::string size_text(std::int64_t w, std::int64_t h) { return std::to_string(w) + " x " + std::to_string(h); }

struct Job {
  std::string input, output, picture;
};

Job name_outputs(const EnhanceFlags& f, const RunOptions& run, const std::string& input) {
  Job job;
  job.input = input;
  const std::string suffix = "_x" + std::to_string(f.choice.factor);
  job.output = f.output.empty() ? fits::output_name(input, suffix, ".fits") : f.output;
  fits::WriteOptions options;
  options.overwrite = run.overwrite;
  options.inputs = {input};
  const std::string final_path = fits::check_output(job.output, options);
  if (!f.no_png && final_path != "-") {
    std::filesystem::path picture = final_path;
    if (picture.extension() == ".gz" || picture.extension() == ".fz") picture.replace_extension();
    job.picture = picture.replace_extension(".png").string();
    require_writable_output(job.picture, run.overwrite || f.output.rfind('!', 0) == 0);
  }
  return job;
}

/// Enhances one map; returns its JSON.
nlohmann::json run_job(const Job& job, EnhanceFlags& f, const RunOptions& run, enhance::Model& model, const device::Device& device, at::ScalarType dtype, const std::string& command) {
  const double started = steady_seconds();
  fits::ReadOptions read;
  read.hdu = f.hdu;
  read.plane = f.plane;
  const fits::Image image = fits::read_image(job.input, read);
  f.choice.usual_beam_pixels = model.card.at("beams").value("output_pixels", 2.3);
  enhance::Decisions decisions = enhance::decide(image, f.choice);
  std::vector<std::string> header_warnings;
  (void)enhance::scaled_header(image, decisions, f.choice.factor, f.drop_distortion, header_warnings);  // refusals before the work
  f.options.seed = static_cast<std::uint64_t>(run.seed);
  const enhance::Layout layout = enhance::plan_layout(image.height, image.width, f.choice.factor, *model.network, f.options);
  const enhance::Ood ood = enhance::check_distribution(decisions, model);
  for (const std::string& w : decisions.warnings) log::warning(job.input + ": " + w);
  if (ood.flag) log::warning(job.input + ": OUT OF DISTRIBUTION: " + ood.reason + ": do not trust the added detail");

  const bool one = f.options.sampler.name == "mean";
  const std::int64_t members = one ? 1 : f.options.members, per_member = diffusion::evaluations(f.options.sampler);
  log::print("input    " + job.input + ", " + size_text(image.width, image.height) + " pixels" + (decisions.pixel_arcsec > 0 ? " of " + std::to_string(decisions.pixel_arcsec) + " arcsec" : ""));
  log::print("unit     " + decisions.unit.reason);
  log::print(std::string("mode     ") + (decisions.block_mode ? "block: the block " + std::string(decisions.unit.divides() ? "sum" : "mean") + " of the output is the input" : "beam: the output, degraded, is the input within its noise"));
  log::print("beam     " + decisions.beam_source + ": " + decisions.beam_reason);
  if (!decisions.block_mode) log::print("noise    sigma " + std::to_string(decisions.noise) + " (" + decisions.noise_source + ")");
  log::print("output   " + job.output + ", " + size_text(layout.width, layout.height) + ", " + std::to_string(members) + (members == 1 ? " member of " : " members of ") + std::to_string(per_member) +
             (per_member == 1 ? " evaluation" : " evaluations"));
  log::print("tiles    " + std::to_string(layout.tiles()) + " of " + size_text(layout.columns.tile, layout.rows.tile) + ", model " + model.name + ", " + device.name() + ", " + device::dtype_name(dtype));

  nlohmann::json json{{"input", job.input},
                      {"output", job.output},
                      {"factor", f.choice.factor},
                      {"mode", decisions.block_mode ? "block" : "beam"},
                      {"beam_in_arcsec", decisions.beam_in_arcsec > 0 ? nlohmann::json(decisions.beam_in_arcsec) : nlohmann::json()},
                      {"beam_out_arcsec", decisions.beam_out_arcsec > 0 ? nlohmann::json(decisions.beam_out_arcsec) : nlohmann::json()},
                      {"beam_source", decisions.beam_source},
                      {"unit_class", fits::name_of(decisions.unit.unit_class)},
                      {"members", members},
                      {"evaluations", per_member},
                      {"sampler", f.options.sampler.name},
                      {"seed", run.seed},
                      {"device", device.name()},
                      {"dtype", device::dtype_name(dtype)},
                      {"tiles", {{"size", std::max(layout.rows.tile, layout.columns.tile)}, {"overlap", f.overlap}, {"count", layout.tiles()}}},
                      {"ood", {{"flag", ood.flag}, {"score", ood.score}, {"reason", ood.reason}}}};
  if (run.dry_run) {
    const double flops = static_cast<double>(layout.tiles() * layout.rows.tile * layout.columns.tile * members * per_member) * model.network->flops_per_pixel();
    char text[160];
    std::snprintf(text, sizeof(text), "dry run  %.3g Tflop, about %.1f GB of memory; nothing written", flops / 1e12, enhance::peak_memory_bytes(layout, f.options) / 1e9);
    log::print(text);
    json["flops"] = flops;
    json["memory_bytes"] = enhance::peak_memory_bytes(layout, f.options);
    return json;
  }

  enhance::Enhanced enhanced;
  {
    Progress progress("enhancing", members * per_member, "evaluations");
    f.options.progress = [&](std::int64_t n) { progress.advance(n); };
    enhanced = enhance::enhance_map(decisions.observation, decisions.missing, model, f.options);
  }
  enhance::OutputOptions out;
  out.path = job.output;
  out.overwrite = run.overwrite;
  out.compress = f.compress;
  out.as_double = f.as_double;
  out.save_members = f.save_members;
  out.drop_distortion = f.drop_distortion;
  out.command = command;
  out.device = device.name();
  out.dtype = device::dtype_name(dtype);
  const enhance::Written written = enhance::write_output(image, decisions, enhanced, model, f.options, ood, out);
  for (const std::string& w : written.warnings) log::warning(job.input + ": " + w);
  if (!job.picture.empty()) write_text(job.picture, enhance::quicklook_png(image, decisions, enhanced), true);

  const double seconds = steady_seconds() - started;
  char text[200];
  std::snprintf(text, sizeof(text), "flux     error %.2g%s, %.1f s", written.flux_error, decisions.block_mode ? " (largest block)" : " (mean)", seconds);
  log::print(text);
  if (enhanced.chi2) {
    std::snprintf(text, sizeof(text), "chi2     %.3g (mean)%s", *enhanced.chi2, "");
    log::print(text + (enhanced.member_chi2 ? ", " + std::to_string(*enhanced.member_chi2) + " (members)" : ""));
  }
  log::print("ds9 " + job.input + " " + written.fits + " -scale asinh -lock frame wcs");
  json["output"] = written.fits;
  json["seconds"] = seconds;
  json["flux_error"] = written.flux_error;
  json["chi2"] = enhanced.chi2 ? nlohmann::json(*enhanced.chi2) : nlohmann::json();
  json["member_chi2"] = enhanced.member_chi2 ? nlohmann::json(*enhanced.member_chi2) : nlohmann::json();
  return json;
}

}  // namespace

int enhance(const Arguments& arguments) {
  EnhanceFlags f;
  RunOptions run;
  Options options("cirrus enhance", "Upscale FITS maps of dust with a diffusion model: a sharper map, an uncertainty for every pixel, and a header that says what was done.");
  register_flags(options, f);
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  apply_preset(f, options);

  const dist::World world = dist::join_world();
  dist::require_single(world, "Enhancing");
  std::vector<Job> jobs;
  for (const std::string& input : f.inputs) jobs.push_back(name_outputs(f, run, input));
  const auto device = device::open_device(run.device);
  const at::ScalarType dtype = device::resolve_dtype(run.dtype, *device);
  at::set_num_threads(resolve_threads(run.threads));
  enhance::Model model = enhance::load_model(enhance::find_model(f.model, f.choice.factor), device->torch_device(), dtype);
  if (options.given("factor") && model.factor != f.choice.factor)
    throw Error(ExitCode::usage, "Model " + model.name + " upscales by " + std::to_string(model.factor) + ", not by " + std::to_string(f.choice.factor), "choose the model or the factor, not both");
  f.choice.factor = model.factor;

  nlohmann::json results = nlohmann::json::array();
  const std::string command = public_command(arguments);
  for (const Job& job : jobs) results.push_back(run_job(job, f, run, model, *device, dtype, command));
  if (run.json) {
    for (nlohmann::json& r : results) r["warnings"] = log::warnings();
    log::print_json((results.size() == 1 ? results[0] : nlohmann::json{{"maps", results}}).dump());
  }
  return 0;
}

}  // namespace cirrus::app
