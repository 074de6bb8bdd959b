// cirrus enhance: FITS maps in, sharper ones out. Flags here; the work of one map is in enhance_job.cpp.
#include "apps/cirrus/enhance_job.h"
#include "apps/cirrus/machine.h"
#include "apps/cirrus/verbs.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/options.h"
#include "dist/world.h"

namespace cirrus::app {
namespace {

void register_flags(Options& options, EnhanceFlags& f) {
  options.positionals("IN.fits", f.inputs, "maps: .fits, .gz, .fz, map.fits[EXT], - (stdin), @list.txt", 1);
  options.group("Input");
  options.add("hdu", f.hdu, "HDU by number or name").metavar("N|NAME").default_text("the first with a 2-D image");
  options.add("plane", f.plane, "plane of a cube, from 1 (0: the image has only one)").metavar("N").range(0);
  options.add("all_planes", f.all_planes, "enhance every plane of a cube; the output holds cubes");
  options
      .add("beam", f.choice.beam,
           "beam of the map: auto (header, else estimated), none (exact block mean), or its FWHM")
      .metavar("FWHM");
  options.add("noise", f.choice.noise, "noise of the map: auto, or sigma in its unit").metavar("SIGMA");
  options.add("unit_type", f.choice.unit_type, "what BUNIT means").one_of({"auto", "brightness", "pixel", "beam"});
  options.add("drop_distortion", f.drop_distortion, "go on without lookup-table distortions that cannot be scaled");
  options.group("Output");
  options.add("output", f.output, "output map")
      .short_flag('o')
      .metavar("OUT.fits")
      .default_text("<name>_x4.fits in this folder");
  options.add("beam_out", f.choice.beam_out, "FWHM of the output's beam")
      .metavar("FWHM")
      .default_text("2.3 output pixels");
  options.add("save_members", f.save_members, "write all ensemble members (extension MEMBERS)");
  options.add("double", f.as_double, "64-bit output for a 64-bit map");
  options.add("compress", f.compress, "lossless tile compression (GZIP_2)");
  options.add("no_png", f.no_png, "no quick-look picture");
  options.group("Super-resolution");
  options.add("factor", f.choice.factor, "output pixels along the side of an input pixel").range(2, 16);
  options.add("model", f.model, "model by name or file")
      .metavar("NAME|FILE")
      .default_text("the shipped one of the factor");
  options.add("preset", f.preset, "default: 8 members of 16 evaluations; fast: 4 of 8; best: 32 of 24")
      .one_of({"default", "fast", "best"});
  options.add("members", f.options.members, "ensemble members").metavar("N").range(1, 1024);
  options.add("steps", f.steps, "sampler steps").metavar("N").range(2, 1000);
  options
      .add("sampler", f.options.sampler.name,
           "mean: one evaluation, the regression estimate; ddpm: the 2000 "
           "steps that sr3 networks were published with")
      .one_of({"dpmpp", "heun", "euler", "mean", "ddpm"});
  options.add("churn", f.options.sampler.churn, "stochasticity of euler and heun").metavar("X").range(0, 1000);
  options.add("sigma_max", f.options.sampler.sigma_max, "noise level at which sampling begins")
      .metavar("X")
      .range(0.1, 1000);
  options
      .add("tile", f.tile,
           "tile in output pixels (at least 128 unless --overlap is given), or auto: the whole map if it fits")
      .metavar("N");
  options.add("overlap", f.overlap, "overlap of tiles: auto (half a tile), exact (receptive field), or output pixels")
      .metavar("N");
  options.add("batch", f.options.batch, "tiles in one network call (0: by memory)").metavar("N").range(0, 4096);
  options.add("no_consistency", f.no_consistency, "leave out the agreement with the input").flag_only();
}

/// A number of pixels, or -1 for one of the words.
std::int64_t pixels_or_word(const std::string& text, const char* flag, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), text) != words.end()) return -1;
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos)
    throw Error(ExitCode::usage,
                std::string(flag) + " '" + text + "' is neither a number of pixels nor a word it knows",
                "give a number, or " + words.front());
  return std::stoll(text);
}

/// Fills in what follows from other flags, and refuses those that contradict each other.
void settle(EnhanceFlags& f, const Options& options) {
  const auto [members, steps] = f.preset == "fast"   ? std::pair{4, 8}
                                : f.preset == "best" ? std::pair{32, 24}
                                                     : std::pair{8, 16};
  if (!options.given("members")) f.options.members = members;
  if (!options.given("steps")) f.steps = steps;
  diffusion::SamplerOptions& sampler = f.options.sampler;
  sampler.steps = static_cast<int>(f.steps);
  const std::int64_t tile = pixels_or_word(f.tile, "--tile", {"auto"});
  if (tile >= 0 && tile < 16)
    throw Error(ExitCode::usage, "--tile " + f.tile + " is too small", "use at least 16 output pixels");
  f.options.tile = std::max<std::int64_t>(tile, 0);
  f.options.exact_overlap = f.overlap == "exact";
  f.options.overlap = pixels_or_word(f.overlap, "--overlap", {"auto", "exact"});
  f.options.consistency = !f.no_consistency;
  if (f.inputs.size() > 1 && !f.output.empty())
    throw Error(ExitCode::usage,
                "--output names one file, but there are " + std::to_string(f.inputs.size()) + " inputs",
                "leave it out: outputs are named after the inputs");
  if (sampler.name == "mean" && (f.save_members || options.given("members")))
    log::warning("--sampler mean makes no members: --members and --save-members have no effect");
  if (f.all_planes && f.plane > 0)
    throw Error(ExitCode::usage, "--plane and --all-planes contradict each other", "give one of them");
  for (const std::string& input : f.inputs)
    if (f.all_planes && input == "-")
      throw Error(ExitCode::usage, "--all-planes reads its input more than once, which stdin cannot do",
                  "give a file name");
}

/// The command line as it goes into HISTORY: file names without their folders.
std::string public_command(const Arguments& arguments) {
  std::string command = "cirrus enhance";
  for (std::string word : arguments.words) {
    const auto equals = word.rfind("--", 0) == 0 ? word.find('=') : std::string::npos;
    const auto from = equals == std::string::npos ? 0 : equals + 1;
    if (const auto slash = word.rfind('/'); slash != std::string::npos && slash >= from)
      word.erase(from, slash + 1 - from);
    command += " " + word;
  }
  return command;
}

}  // namespace

int enhance(const Arguments& arguments) {
  EnhanceFlags f;
  RunOptions run;
  Options options("cirrus enhance",
                  "Upscale FITS maps of dust with a diffusion model: a sharper map, an uncertainty for every pixel, "
                  "and a header that says what was done.");
  register_flags(options, f);
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  const dist::World world = dist::join_world();
  settle(f, options);
  for (const std::string& input : f.inputs)
    if (world.size > 1 && input == "-")
      throw Error(ExitCode::usage, "stdin reaches one of the " + std::to_string(world.size) + " processes alone",
                  "save the map to a file and give its name");

  (void)file_date();  // a SOURCE_DATE_EPOCH that is none is told now
  const Machine machine = open_machine(run, world);
  enhance::Model model = open_model(f.model, f.choice.factor, options.given("factor"), machine);
  f.choice.factor = model.factor;
  check_sampler(f.options.sampler, model, options.given("steps"));

  enhance::Ranks ranks(world, *machine.device);
  std::vector<EnhanceJob> jobs;
  ranks.agree([&] {
    if (ranks.is_lead()) return void(jobs = name_jobs(f, run));
    for (const std::string& input : f.inputs) jobs.push_back({input, "", ""});
  });
  const EnhanceContext context{ranks, model, *machine.device, machine.dtype, public_command(arguments)};
  nlohmann::json results = nlohmann::json::array();
  int code = 0;
  std::string failed;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    try {
      results.push_back(run_enhance_job(jobs[i], f, run, context));
    } catch (const Error& e) {
      const std::size_t rest = jobs.size() - i - 1;
      if (e.code() != ExitCode::bad_data && rest > 0)
        throw Error(e.code(), std::string(e.what()) + "; not begun: " + std::to_string(rest) + " further maps");
      if (e.code() != ExitCode::bad_data || jobs.size() == 1) throw;
      if (ranks.is_lead()) log::error(e.what());  // a bad map is no reason to leave the others
      failed += (failed.empty() ? "" : ", ") + jobs[i].input;
      code = static_cast<int>(e.code());
      results.push_back({{"input", jobs[i].input}, {"error", {{"code", code}, {"message", e.what()}}}});
    }
  }
  if (!failed.empty() && ranks.is_lead()) log::error("not enhanced: " + failed);
  if (run.json)
    log::print_json((results.size() == 1 ? results[0] : nlohmann::json{{"maps", results}})
                        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return code;
}

}  // namespace cirrus::app
