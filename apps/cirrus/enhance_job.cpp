// Reading, deciding, enhancing plane by plane, writing, telling.
#include "apps/cirrus/enhance_job.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/progress.h"
#include "fits/names.h"
#include "fits/writer.h"

namespace cirrus::app {
namespace {

constexpr double kPoorFit = 5;  // chi-square beyond which data and output are said to disagree

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[400];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

/// A line of the report: a result, but not the one that a script asks for with --quiet.
void tell(const std::string& line) {
  if (!log::quiet()) log::print(line);
}

/// A word for a shell.
std::string quoted(const std::string& word) {
  const bool plain =
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-=,:@%") ==
      std::string::npos;
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string size_text(std::int64_t w, std::int64_t h) { return std::to_string(w) + " x " + std::to_string(h); }

nlohmann::json number_or_null(double value) { return value > 0 ? nlohmann::json(value) : nlohmann::json(); }
nlohmann::json number_or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

/// One input being enhanced.
class Run {
public:
  Run(const EnhanceJob& job, EnhanceFlags& flags, const RunOptions& run, const EnhanceContext& context)
      : job_(job), f_(flags), run_(run), context_(context), ranks_(context.ranks) {
    one_ = f_.options.sampler.name == "mean";
    members_ = one_ ? 1 : f_.options.members;
    evaluations_ = diffusion::evaluations(f_.options.sampler);
    f_.choice.usual_beam_pixels = context_.model.trained.usual_beam;
    out_.path = job.output;
    out_.overwrite = run.overwrite;
    out_.compress = f_.compress;
    out_.save_members = f_.save_members;
    out_.all_planes = f_.all_planes;
    out_.command = context.command;
    out_.device = context.device.name();
    out_.dtype = device::dtype_name(context.dtype);
  }

  nlohmann::json operator()() {
    return with_file_name(job_.input, [&] { return work(); });
  }

private:
  nlohmann::json work() {
    const double started = steady_seconds();
    fits::Image first, image;
    ranks_.agree([&] { first = read(f_.all_planes ? 1 : f_.plane); });
    out_.as_double = f_.as_double && first.bitpix == -64;
    planes_ = f_.all_planes ? first.planes : 1;
    std::vector<enhance::OutputPlane> done;
    std::optional<enhance::Decisions> decisions, d;
    std::optional<Progress> progress;
    enhance::Ood ood;
    std::string picture, written;
    for (std::int64_t p = 1; p <= planes_; ++p) {
      bool blank = false;
      ranks_.agree([&] {
        image = p == 1 ? first : read(p);
        blank = planes_ > 1 && fits::is_blank(image) && (decisions || p < planes_);
        if (blank) return warn("plane " + std::to_string(p) + " holds no data and stays empty");
        d = enhance::decide(image, f_.choice);
        ood = enhance::check_distribution(*d, context_.model);
        if (!decisions) settle(first, image, *(decisions = d));
        if (ood.flag)
          warn((planes_ > 1 ? "plane " + std::to_string(p) + ": " : std::string()) +
               "OUT OF DISTRIBUTION: " + ood.reason + ": do not trust the added detail");
      });
      if (blank || run_.dry_run) {
        done.push_back(enhance::blank_plane(image.height, image.width));
        if (blank) continue;
        done.back().ood = ood;
        return estimate(*decisions, done);
      }
      if (!progress) progress.emplace(title(), planes_ * evaluations_of_lead(*d), "evaluations");
      f_.options.progress = [&](std::int64_t n) { progress->advance(n); };
      f_.options.seed = plane_seed(image.plane);
      const enhance::Ensemble ensemble =
          enhance::draw_ensemble(d->observation, d->missing, context_.model, f_.options, ranks_);
      ranks_.agree([&] {
        if (!ranks_.is_lead()) return;
        done.push_back(enhance::output_plane(*d, enhance::describe(ensemble), ood, out_));
        if (!job_.picture.empty() && (picture.empty() || p == planes_ / 2 + 1))
          picture = enhance::quicklook_png(image, *d, done.back());
      });
    }
    progress.reset();
    f_.options.seed = static_cast<std::uint64_t>(run_.seed);
    nlohmann::json result;
    ranks_.agree([&] {
      if (!ranks_.is_lead()) return;
      written = enhance::write_output(first, header_, *decisions, done, layout_, context_.model, f_.options, out_);
      if (!job_.picture.empty()) write_picture(picture, written);
      result = report(*decisions, done, written, steady_seconds() - started);
    });
    return result;
  }

  /// What the first plane that has data decides for all.
  void settle(const fits::Image& first, const fits::Image& image, const enhance::Decisions& d) {
    if (f_.as_double && !out_.as_double)
      warn("--double has no effect: the map is not of 64-bit floats (BITPIX " + std::to_string(first.bitpix) +
           "), so the output has 32");
    for (const std::string& w : d.warnings) warn(w);
    header_ = enhance::output_header(first, d, f_.choice.factor, f_.drop_distortion);
    for (const std::string& w : header_.warnings) warn(w);
    layout_ = enhance::plan_layout(image.height, image.width, f_.choice.factor, *context_.model.network, f_.options);
    shares_ = enhance::plan_shares(ranks_.size(), layout_, *context_.model.network, f_.options);
    if (shares_.idle() > 0)
      warn(std::to_string(shares_.idle()) + " of " + std::to_string(ranks_.size()) +
           (shares_.idle() == 1 ? " ranks has" : " ranks have") + " nothing to do: " + std::to_string(members_) +
           (members_ == 1 ? " member" : " members") + ", " + std::to_string(layout_.rows.count()) +
           (layout_.rows.count() == 1 ? " row" : " rows") + " of tiles each (start " +
           std::to_string(ranks_.size() - shares_.idle()) + ", or use more --members or a smaller --tile)");
    announce(image, d);
    if (d.beam_source == "estimated" || (d.beam_source == "none" && f_.choice.beam == "auto"))
      f_.choice.beam_pixels = d.observation.sampling.beam_in / static_cast<double>(f_.choice.factor);
  }

  std::string title() const {
    return ranks_.size() == 1 ? "enhancing" : "enhancing on " + std::to_string(ranks_.size()) + " ranks, rank 0";
  }

  /// Of one plane: what the progress of this rank counts.
  std::int64_t evaluations_of_lead(const enhance::Decisions& d) const {
    enhance::EnhanceOptions mine = f_.options;
    mine.members = shares_.members_of(0);
    return mine.members * evaluations_ + enhance::solve_evaluations(mine, d.observation.sampling);
  }

  fits::Image read(std::int64_t plane) const {
    fits::ReadOptions options;
    options.hdu = f_.hdu;
    options.plane = plane;
    options.whole_cube = f_.all_planes;
    options.verify_checksum = plane <= 1 || !f_.all_planes;
    return fits::read_image(job_.input, options);
  }

  void write_picture(const std::string& picture, const std::string& map) const {
    try {
      write_text(job_.picture, picture, true);
    } catch (const Error& e) {
      throw Error(e.code(), std::string(e.what()) + "; the map itself, " + map + ", is complete");
    }
  }

  /// Planes have noise of their own, and plane N is the same whether it is enhanced alone or with all others.
  std::uint64_t plane_seed(std::int64_t plane) const {
    return static_cast<std::uint64_t>(run_.seed) + (static_cast<std::uint64_t>(plane - 1) << 40);
  }

  void warn(const std::string& text) {
    const std::string message = text.starts_with(job_.input) ? text : job_.input + ": " + text;
    warnings_.push_back(message);
    log::warning(message);
  }

  void announce(const fits::Image& image, const enhance::Decisions& d) const {
    const std::string of_planes = planes_ > 1 ? ", " + std::to_string(planes_) + " planes" : "";
    tell("input    " + job_.input + ", " + size_text(image.width, image.height) + " pixels" +
         (d.pixel_arcsec > 0 ? format(" of %.6g arcsec", d.pixel_arcsec) : "") + of_planes);
    tell("unit     " + d.unit.reason);
    tell(std::string("mode     ") +
         (d.block_mode
              ? "block: the block " + std::string(d.unit.divides() ? "sum" : "mean") + " of the output is the input"
              : "beam: the output, degraded, is the input within its noise"));
    tell("beam     " + d.beam_source + ": " + d.beam_reason);
    if (!d.block_mode) tell("noise    " + format("sigma %.4g (%s)", d.noise, d.noise_source.c_str()));
    tell("output   " + job_.output + ", " + size_text(layout_.width, layout_.height) + of_planes + ", " +
         std::to_string(members_) + (members_ == 1 ? " member of " : " members of ") + std::to_string(evaluations_) +
         (evaluations_ == 1 ? " evaluation" : " evaluations"));
    const std::int64_t tile = std::max(layout_.columns.tile, layout_.rows.tile);
    if (f_.options.tile > 0 && tile > f_.options.tile)
      tell("note     --tile " + f_.tile + " is raised to " + std::to_string(tile) +
           ": smaller ones show at their seams unless --overlap is given");
    tell("tiles    " + std::to_string(layout_.tiles()) + " of " + size_text(layout_.columns.tile, layout_.rows.tile) +
         ", model " + context_.model.name + ", " + out_.device + ", " + out_.dtype);
    if (ranks_.size() > 1) tell("ranks    " + shares_.text());
  }

  nlohmann::json description(const enhance::Decisions& d, std::span<const enhance::OutputPlane> planes) const {
    const enhance::Figures figures = enhance::figures_of(planes);
    return {{"input", job_.input},
            {"output", job_.output},
            {"factor", f_.choice.factor},
            {"mode", d.block_mode ? "block" : "beam"},
            {"beam_in_arcsec", number_or_null(d.beam_in_arcsec)},
            {"beam_out_arcsec", number_or_null(d.beam_out_arcsec)},
            {"beam_source", d.beam_source},
            {"unit_class", fits::name_of(d.unit.unit_class)},
            {"members", members_},
            {"evaluations", evaluations_},
            {"sampler", f_.options.sampler.name},
            {"seed", run_.seed},
            {"device", out_.device},
            {"dtype", out_.dtype},
            {"ranks", ranks_.size()},
            {"tiles",
             {{"size", std::max(layout_.rows.tile, layout_.columns.tile)},
              {"overlap", f_.overlap},
              {"count", layout_.tiles()}}},
            {"ood", {{"flag", figures.ood.flag}, {"score", figures.ood.score}, {"reason", figures.ood.reason}}},
            {"warnings", warnings_}};
  }

  nlohmann::json estimate(const enhance::Decisions& d, std::span<const enhance::OutputPlane> planes) {
    const enhance::Sampling& sampling = d.observation.sampling;
    const auto passes = static_cast<double>(layout_.tiles() * members_ * evaluations_ * planes_);
    const double work = static_cast<double>(planes_) * enhance::work_pixels(layout_, f_.options, sampling, shares_);
    const double flops = passes * context_.model.network->flops(layout_.rows.tile, layout_.columns.tile),
                 memory = enhance::peak_memory_bytes(enhance::strip_layout(layout_, shares_), f_.options, sampling);
    double rate = 0;  // of this rank while the others work as well
    ranks_.agree([&] { rate = enhance::seconds_per_pixel(context_.model); });
    const double seconds = work * rate;
    const std::int64_t maps = (one_ ? 1 : members_ > 1 ? 4 : 2) + (f_.save_members && !one_ ? members_ : 0);
    const double pixels = static_cast<double>(layout_.height * layout_.width * planes_),
                 bytes = pixels * static_cast<double>(maps) * (out_.as_double ? 8 : 4) + pixels;
    tell("dry run  " + format("%.3g Tflop, about %s%s, %.1f GB of memory%s, a file of %.3g MB; nothing written",
                              flops / 1e12, duration_text(seconds).c_str(),
                              ranks_.size() == 1 ? "" : (" on " + std::to_string(ranks_.size()) + " ranks").c_str(),
                              memory / 1e9, ranks_.size() == 1 ? "" : " on rank 0", bytes / 1e6));
    nlohmann::json json = description(d, planes);
    json["flops"] = flops;
    json["memory_bytes"] = memory;
    json["output_bytes"] = bytes;
    json["estimated_seconds"] = seconds;
    return json;
  }

  nlohmann::json report(const enhance::Decisions& d, std::span<const enhance::OutputPlane> planes,
                        const std::string& written, double seconds) const {
    const enhance::Figures figures = enhance::figures_of(planes);
    tell("flux     " +
         format("error %.2g%s, %.1f s", figures.flux_error, d.block_mode ? " (largest block)" : " (mean)", seconds));
    if (figures.chi2)
      tell("chi2     " + format("%.3g (mean)", *figures.chi2) +
           (figures.member_chi2 ? format(", %.3g (members)", *figures.member_chi2) : ""));
    if (figures.member_chi2.value_or(figures.chi2.value_or(1)) > kPoorFit)
      log::warning(job_.input + ": the output does not agree with the input within the noise (chi2 above " +
                   format("%.0f", kPoorFit) + "): check --noise and --beam");
    if (log::quiet()) {
      log::print(written);
    } else {
      log::print("ds9 " + (job_.input == "-" ? "" : quoted(job_.input) + " ") + quoted(written) +
                 " -scale asinh -lock frame wcs");
    }
    nlohmann::json json = description(d, planes);
    json["output"] = written;
    json["seconds"] = seconds;
    json["flux_error"] = figures.flux_error;
    json["chi2"] = number_or_null(figures.chi2);
    json["member_chi2"] = number_or_null(figures.member_chi2);
    json["planes"] = planes.size();
    return json;
  }

  const EnhanceJob& job_;
  EnhanceFlags& f_;
  const RunOptions& run_;
  const EnhanceContext& context_;
  enhance::Ranks& ranks_;
  bool one_ = false;
  std::int64_t members_ = 1, evaluations_ = 1;
  enhance::OutputOptions out_;
  enhance::OutputHeader header_;
  enhance::Layout layout_;
  enhance::Shares shares_;
  std::int64_t planes_ = 1;
  std::vector<std::string> warnings_;
};

}  // namespace

std::vector<EnhanceJob> name_jobs(const EnhanceFlags& f, const RunOptions& run) {
  std::vector<EnhanceJob> jobs;
  std::set<std::string> names;
  for (const std::string& input : f.inputs) {
    EnhanceJob job;
    job.input = input;
    job.output =
        f.output.empty() ? fits::output_name(input, "_x" + std::to_string(f.choice.factor), ".fits") : f.output;
    if (job.output == "-")
      throw Error(ExitCode::usage, "--output -: a map with its extensions cannot be written to stdout",
                  "give a file name");
    fits::WriteOptions options;
    options.overwrite = run.overwrite;
    options.compress = f.compress;
    options.inputs = {input};
    std::filesystem::path path = fits::check_output(job.output, options);
    if (!names.insert(path.lexically_normal().string()).second)
      throw Error(ExitCode::cannot_create, "two inputs would both be written to " + path.string(),
                  "enhance them one by one, with --output");
    if (path.extension() == ".png" || path.extension() == ".PNG")
      throw Error(ExitCode::usage, "--output " + job.output + ": the map is a FITS file; its picture gets this name",
                  "end the name in .fits");
    if (!f.no_png) {
      if (path.extension() == ".gz" || path.extension() == ".fz") path.replace_extension();
      job.picture = path.replace_extension(".png").string();
      require_writable_output(job.picture, run.overwrite || job.output.starts_with('!'), {fits::file_path(input)});
    }
    jobs.push_back(job);
  }
  if (jobs.size() > 1)  // a missing or unreadable map is found now, not after hours
    for (const EnhanceJob& job : jobs)
      if (job.input != "-") (void)fits::count_planes(job.input, f.hdu);
  return jobs;
}

nlohmann::json run_enhance_job(const EnhanceJob& job, EnhanceFlags flags, const RunOptions& run,
                               const EnhanceContext& context) {
  return Run(job, flags, run, context)();
}

}  // namespace cirrus::app
