// cirrus-data degrade: a map as a telescope with a larger beam, coarser pixels and noise would deliver it. Beam first,
// then pixels (mean, or sum for units per pixel), then stripes and noise in the output's pixels.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/signals.h"
#include "data_tools/map_file.h"
#include "data_tools/verbs.h"
#include "fits/header_beam.h"
#include "fits/names.h"
#include "fits/scale.h"
#include "fits/units.h"
#include "fits/wcs_check.h"
#include "fits/writer.h"
#include "sky/angle.h"
#include "sky/beam.h"
#include "sky/degrade.h"
#include "sky/noise.h"

namespace cirrus::data_tools {
namespace {

struct DegradeFlags {
  std::vector<std::string> inputs;
  MapChoice choice;
  bool all_planes = false;
  std::string output;
  bool as_double = false;
  std::int64_t factor = 4;
  std::string beam_in = "auto";
  std::optional<std::string> beam_out;
  double noise = 0, stripes = 0;
  std::string unit_type = "auto";
};

void register_flags(Options& options, DegradeFlags& flags) {
  options.positionals("IN.fits", flags.inputs, "the map", 1, 1);
  add_map_choice(options, flags.choice);
  options.add("all_planes", flags.all_planes, "every plane of a cube");
  options.add("unit_type", flags.unit_type, "what BUNIT means").one_of({"auto", "brightness", "pixel", "beam"});
  options.group("Output");
  options.add("output", flags.output, "the degraded map")
      .short_flag('o')
      .metavar("OUT.fits")
      .default_text("name of the map, _dN.fits");
  options.add("double", flags.as_double, "64-bit output from 64-bit input");
  options.group("Degradation");
  options.add("factor", flags.factor, "input pixels along the side of an output pixel").metavar("N").range(1, 4096);
  options.add("beam_in", flags.beam_in, "FWHM of the map's beam, none, or auto: its BMAJ").metavar("FWHM");
  options.add("beam_out", flags.beam_out, "FWHM of the output's beam").metavar("FWHM").default_text("no convolution");
  options.add("noise", flags.noise, "white noise, rms in the output's unit").metavar("SIGMA").range(0);
  options.add("stripes", flags.stripes, "1/f stripes along a scan, rms in the output's unit").metavar("X").range(0);
}

/// What is done to the pixels, decided from flags and header.
struct Plan {
  fits::UnitDecision unit;
  double beam_in_arcsec = 0;
  std::optional<double> beam_out_arcsec;
  double kernel_pixels = 0;            ///< sigma of the difference kernel
  std::int64_t width = 0, height = 0;  ///< of the input, cropped to whole output pixels
};

double input_beam(const DegradeFlags& flags, const fits::Header& header, const std::string& name) {
  if (flags.beam_in == "none") return 0;
  if (flags.beam_in != "auto") return beam_arcsec("--beam-in", flags.beam_in);
  const auto beam = fits::header_resolution(header);
  if (!beam) {
    if (flags.beam_out)
      log::warning(name + ": no beam in the header; the map is taken as unconvolved (--beam-in tells otherwise)");
    return 0;
  }
  if (beam->is_elliptical()) log::warning(name + ": its elliptical beam is taken as a circle of equal area");
  return beam->fwhm_arcsec();
}

Plan make_plan(const DegradeFlags& flags, const fits::Image& image) {
  const std::string& name = flags.inputs.front();
  Plan plan;
  plan.unit = fits::decide_unit(image.header, flags.unit_type);
  for (const std::string& warning : plan.unit.warnings) log::warning(name + ": " + warning);
  plan.width = image.width / flags.factor * flags.factor;
  plan.height = image.height / flags.factor * flags.factor;
  if (plan.width == 0 || plan.height == 0) {
    throw Error(ExitCode::bad_data,
                name + ": " + size_text(image.width, image.height) + " is smaller than one output pixel",
                "use a smaller --factor");
  }
  if (plan.width != image.width || plan.height != image.height) {
    log::warning(name + ": " + std::to_string(image.width - plan.width) + " columns and " +
                 std::to_string(image.height - plan.height) +
                 " rows at the far edges do not fill an output pixel and are left out");
  }
  plan.beam_in_arcsec = input_beam(flags, image.header, name);
  if (!flags.beam_out) return plan;
  plan.beam_out_arcsec = beam_arcsec("--beam-out", *flags.beam_out);
  const auto scale = fits::pixel_scale(image.header, image.axis_x, image.axis_y);
  if (!scale)
    throw Error(ExitCode::bad_data, name + ": no pixel size in the header, so a beam has no size in pixels",
                "leave --beam-out out");
  if (scale->anisotropy > 1.01) log::warning(name + ": its pixels are not square; the beam is round in pixels");
  if (*plan.beam_out_arcsec < plan.beam_in_arcsec)
    throw Error(ExitCode::bad_data,
                name + ": --beam-out " + sky::angle_text(*plan.beam_out_arcsec) +
                    " is narrower than the map's own beam of " + sky::angle_text(plan.beam_in_arcsec),
                "a convolution cannot sharpen: give a wider one, or --beam-in if the header is wrong");
  const sky::Beam kernel = sky::Beam{*plan.beam_out_arcsec}.difference({plan.beam_in_arcsec});
  plan.kernel_pixels = kernel.sigma() / scale->arcsec;
  // Beyond this the FWHM is more than twice the map: memory by the beam, and nothing left to see.
  if (!(plan.kernel_pixels <= static_cast<double>(std::max(plan.width, plan.height))))
    throw Error(ExitCode::bad_data,
                name + ": --beam-out " + *flags.beam_out + " is wider than the map of " +
                    size_text(image.width, image.height) + " pixels of " + std::to_string(scale->arcsec) + " arcsec",
                "write the beam as 18.2arcsec, 5arcmin or 0.01deg; bare numbers are arcsec");
  return plan;
}

sky::Degradation degradation_of(const Plan& plan, const DegradeFlags& flags) {
  return {plan.height, plan.width, plan.kernel_pixels, flags.factor,
          plan.unit.divides() ? sky::Binning::sum : sky::Binning::mean};
}

/// One plane, degraded: float64 [height / factor, width / factor].
at::Tensor degrade_plane(fits::Image& image, const Plan& plan, const DegradeFlags& flags, double unit_factor,
                         const RunOptions& run, std::int64_t item) {
  const at::Tensor map = pixels_of(image).narrow(0, 0, plan.height).narrow(1, 0, plan.width);
  const sky::Degradation degradation = degradation_of(plan, flags);
  const at::Tensor valid = at::isfinite(map);
  const bool whole = valid.all().item<bool>();
  at::Tensor low = (whole ? degradation.apply(map.contiguous()) : degradation.apply_masked(map, valid)) * unit_factor;
  const auto seed = static_cast<std::uint64_t>(run.seed);
  if (flags.stripes > 0) {
    low = low + sky::stripes(low.size(0), low.size(1), flags.stripes, seed, static_cast<std::uint64_t>(item));
  }
  return sky::add_noise(low, flags.noise, seed, static_cast<std::uint64_t>(item)).contiguous();
}

/// Of the map's own white noise (NOISE), what an output pixel has: the norm of D's row of the pixel in the middle.
double carried_noise(const fits::Header& header, const Plan& plan, const DegradeFlags& flags) {
  const double noise = header.get<double>("NOISE").value_or(0);
  if (!(noise > 0)) return 0;
  const sky::Degradation degradation = degradation_of(plan, flags);
  const at::Tensor pixel = at::zeros({plan.height / flags.factor, plan.width / flags.factor}, at::kDouble);
  pixel[pixel.size(0) / 2][pixel.size(1) / 2].fill_(1);
  return noise * degradation.adjoint(pixel).norm().item<double>();
}

/// Edits the header for the output; returns the factor of a per-beam unit whose beam changes.
double edit_header(fits::Header& header, const fits::Image& image, const Plan& plan, const DegradeFlags& flags,
                   const RunOptions& run) {
  const std::string& name = flags.inputs.front();
  const double scale = 1.0 / static_cast<double>(flags.factor);
  const fits::ScaleOptions axes{.axis_x = image.axis_x, .axis_y = image.axis_y};
  const fits::ScaleReport report = fits::scale_header(header, scale, scale, axes);
  for (const std::string& warning : report.warnings) log::warning(name + ": " + warning);
  for (const std::string& change : report.changes) log::debug(change);
  double unit_factor = 1;
  // What Cirrus measured of an enhanced map does not hold for its degraded one.
  for (const char* key : {"SRSCALE", "SRMODE", "SRNOISE", "SRNORMM", "SRNORMA", "SRTILE", "SROVERL", "SRCHI2", "SRFLUX",
                          "SROOD", "SRWCSOK"})
    header.erase(key);
  if (plan.beam_out_arcsec) {
    const fits::Beam beam{*plan.beam_out_arcsec, *plan.beam_out_arcsec, 0, "--beam-out"};
    if (plan.unit.unit_class == fits::UnitClass::per_beam && fits::header_beam(header)) {
      unit_factor = fits::change_unit_beam(header, beam);
    } else {
      fits::set_beam(header, beam);
    }
    header.erase("SRBMAJ");  // BMAJ is the resolution now
  }
  if (const double noise = std::hypot(flags.noise, unit_factor * carried_noise(header, plan, flags)); noise > 0)
    header.set("NOISE", noise, "rms of the white noise, in BUNIT");
  if (flags.stripes > 0) header.set("STRIPES", flags.stripes, "rms of the stripes added, in BUNIT");
  if (flags.noise > 0 || flags.stripes > 0) header.set("NSEED", run.seed, "seed of noise and stripes");
  const fits::WcsCheck check =
      fits::compare_wcs(image.header, header, plan.width, plan.height, scale, scale, 0, 0, image.axis_x, image.axis_y);
  if (check.usable && !check.ok())
    log::warning(name + ": sky positions move by up to " + std::to_string(check.max_distance_px) + " output pixels");
  return unit_factor;
}

}  // namespace

int degrade(const Arguments& arguments) {
  DegradeFlags flags;
  RunOptions run;
  Options options("cirrus-data degrade",
                  "Degrade a map: larger beam, coarser pixels, stripes, noise. The header follows.");
  register_flags(options, flags);
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;
  prepare_cpu(run);
  const std::string& name = flags.inputs.front();
  if (flags.all_planes && flags.choice.plane)
    throw Error(ExitCode::usage, "--plane and --all-planes exclude each other");

  const std::string default_name = fits::output_name(name, "_d" + std::to_string(flags.factor), ".fits");
  const OutputName out = output_name(flags.output.empty() ? default_name : flags.output, run.overwrite);
  const fits::WriteOptions write{.overwrite = out.overwrite, .inputs = {name}, .poll = signals::check_interrupt};
  fits::check_output(out.path.string(), write);

  const std::int64_t planes = flags.all_planes ? fits::count_planes(name, flags.choice.hdu) : 1;
  fits::ReadOptions read{.hdu = flags.choice.hdu,
                         .plane = flags.all_planes ? 1 : flags.choice.plane.value_or(0),
                         .whole_cube = flags.all_planes};
  fits::Image image = fits::read_image(name, read);
  for (const std::string& warning : image.warnings) log::warning(name + ": " + warning);
  if (planes == 1 && fits::is_blank(image))
    throw Error(ExitCode::bad_data, name + ": no pixel of the image has a value (all are NaN or blank)",
                "choose another HDU or plane");
  const Plan plan = with_file_name(name, [&] { return make_plan(flags, image); });
  fits::Header header = image.header;
  const double unit_factor = with_file_name(name, [&] { return edit_header(header, image, plan, flags, run); });
  header.add_history(command_for_history("degrade", arguments.words));
  const std::int64_t width = plan.width / flags.factor, height = plan.height / flags.factor;
  const bool as_double = flags.as_double && image.bitpix == -64;
  log::info(plan.unit.reason + (plan.unit.divides() ? "; pixels are summed" : "; pixels are averaged"));
  if (run.dry_run) {
    log::print("would read " + name + ", " + size_text(image.width, image.height) + " and write " + out.path.string() +
               ", " + size_text(width, height, as_double ? 8 : 4));
    return 0;
  }

  std::vector<at::Tensor> low;
  for (std::int64_t plane = 1; plane <= planes; ++plane) {
    signals::check_interrupt();
    if (plane > 1) {
      read.plane = plane;
      image = fits::read_image(name, read);
    }
    low.push_back(degrade_plane(image, plan, flags, unit_factor, run, plane - 1));
  }
  const at::Tensor all = at::stack(low).to(as_double ? at::kDouble : at::kFloat).contiguous();
  const auto count = static_cast<std::size_t>(all.numel());
  fits::OutputHdu hdu{"", header, {}, fits::output_axes(image, width, height, flags.all_planes)};
  if (as_double)
    hdu.pixels = std::span<const double>(all.const_data_ptr<double>(), count);
  else
    hdu.pixels = std::span<const float>(all.const_data_ptr<float>(), count);
  const std::string written = fits::write_images(out.path.string(), {&hdu, 1}, write);
  log::print(written);
  if (run.json) {
    const nlohmann::ordered_json object = {
        {"input", name},
        {"output", written},
        {"factor", flags.factor},
        {"width", width},
        {"height", height},
        {"planes", planes},
        {"unit_class", fits::name_of(plan.unit.unit_class)},
        {"beam_in_arcsec", plan.beam_in_arcsec},
        {"beam_out_arcsec",
         plan.beam_out_arcsec ? nlohmann::ordered_json(*plan.beam_out_arcsec) : nlohmann::ordered_json()},
        {"noise", flags.noise},
        {"stripes", flags.stripes},
        {"seed", run.seed},
        {"warnings", log::warnings()}};
    log::print_json(object.dump());
  }
  return 0;
}

}  // namespace cirrus::data_tools
