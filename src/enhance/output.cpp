// Assembling and writing the output file.
#include "enhance/output.h"

#include <cstdio>

#include "base/errors.h"
#include "base/signals.h"
#include "base/version.h"
#include "enhance/quicklook.h"
#include "fits/header_beam.h"
#include "fits/scale.h"
#include "fits/writer.h"
#include "sky/degrade.h"

namespace cirrus::enhance {
namespace {

at::Tensor without_data(const at::Tensor& map, const at::Tensor& missing) {
  return map.masked_fill(missing, std::numeric_limits<double>::quiet_NaN());
}

at::Tensor enlarged(const at::Tensor& missing, std::int64_t s) {
  return missing.repeat_interleave(s, 0).repeat_interleave(s, 1);
}

/// Of the map as it is written, rounding included.
double flux_error_of(const at::Tensor& written, const Decisions& d, const metrics::Transform& transform) {
  const at::Tensor& in = d.observation.lr;
  const at::Tensor out = sky::Degradation(written.size(0), written.size(1), 0, d.observation.sampling.factor)
                             .apply(written.to(at::kDouble));
  if (d.block_mode)
    return ((out - in).abs() / in.abs().clamp_min(transform.a)).masked_fill(d.missing, 0).max().item<double>();
  const double mean_in = in.mean().item<double>();
  return std::abs(out.mean().item<double>() - mean_in) / std::max(std::abs(mean_in), transform.a);
}

/// A header of an extension whose pixels are no brightness of the input's kind (unit: false) or are.
fits::Header extension_header(const fits::Header& map, bool unit, const char* what) {
  fits::Header h = map;
  if (!unit) h.erase("BUNIT");
  h.add_comment(what);
  return h;
}

std::string plane_text(std::size_t plane, const OutputPlane& p) {
  char text[160];
  if (!p.mean.defined()) {
    std::snprintf(text, sizeof(text), "Plane %zu: no data.", plane);
  } else {
    std::snprintf(text, sizeof(text), "Plane %zu: m = %.9g, a = %.9g, noise = %.4g, flux error %.2g%s", plane,
                  p.transform.m, p.transform.a, p.noise, p.flux_error, p.ood.flag ? ", out of distribution." : ".");
  }
  return text;
}

void add_provenance(fits::Header& h, const fits::WcsCheck& wcs, const Decisions& d, std::span<const OutputPlane> planes,
                    const Layout& layout, const Model& model, const EnhanceOptions& o, const OutputOptions& options) {
  const Figures all = figures_of(planes);
  const auto first = std::find_if(planes.begin(), planes.end(), [](const OutputPlane& p) { return p.mean.defined(); });
  const std::string of_plane = planes.size() > 1 ? ", first plane" : "";
  h.set("SRVERS", std::string(kVersion), "version of Cirrus");
  h.set("SRMODEL", model.name, "super-resolution model");
  h.set("SRSHA", model.sha256.substr(0, 16), "first 16 digits of its file's sha256");
  h.set("SRSCALE", model.factor, "output pixels along the side of an input pixel");
  h.set("SRMODE", std::string(d.block_mode ? "block" : "beam"), "block: exact mean of pixels; beam: within noise");
  if (!d.block_mode) h.set("SRNOISE", first->noise, "noise (sigma): " + d.noise_source + of_plane);
  h.set("SRSEED", static_cast<std::int64_t>(o.seed), "seed of the noise");
  h.set("SRNMEM", o.sampler.name == "mean" ? std::int64_t{1} : o.members, "ensemble members");
  h.set("SRSTEPS", static_cast<std::int64_t>(diffusion::evaluations(o.sampler)), "network evaluations a member");
  h.set("SRSAMPLR", o.sampler.name, "sampler");
  h.set("SRNORMM", first->transform.m, "median m of asinh((I - m)/a)" + of_plane);
  h.set("SRNORMA", first->transform.a, "width a of asinh((I - m)/a)" + of_plane);
  h.set("SRTILE", std::max(layout.rows.tile, layout.columns.tile), "tile, output pixels");
  h.set("SROVERL",
        std::string(layout.tiles() == 1 ? "one tile"
                    : o.exact_overlap   ? "exact"
                    : o.overlap < 0     ? "half a tile"
                                        : std::to_string(o.overlap)),
        "overlap of tiles");
  if (all.chi2) h.set("SRCHI2", *all.chi2, "mean ((input - D output)/noise)^2");
  h.set("SRFLUX", all.flux_error,
        d.block_mode ? "largest relative error of a block mean" : "relative error of the map's mean");
  h.set("SROOD", all.ood.flag,
        all.ood.flag ? "input outside what the model was trained on" : "input within the trained range");
  h.set("SRWCSOK", wcs.ok(),
        wcs.usable ? "sky positions checked against the input" : "no usable sky coordinates to check");
  h.add_history("Cirrus " + std::string(kVersion) + ": " + options.command);
  h.add_history("Computed on " + options.device + " in " + options.dtype + ".");
  h.add_history("Unit: " + d.unit.reason);
  h.add_history("Beam: " + d.beam_source + ": " + d.beam_reason);
  if (all.ood.flag) h.add_history("Out of distribution: " + all.ood.reason);
  for (std::size_t i = 0; planes.size() > 1 && i < planes.size(); ++i) h.add_history(plane_text(i + 1, planes[i]));
  h.add_comment("Super-resolved: structure below the resolution of the input is statistical, not measured.");
}

/// One map of every plane, stacked; planes without it (nothing observed) are NaN. Undefined if no plane has it.
at::Tensor stacked(std::span<const OutputPlane> planes, at::Tensor OutputPlane::*map) {
  at::Tensor like;
  for (const OutputPlane& p : planes)
    if ((p.*map).defined()) like = p.*map;
  if (!like.defined()) return like;
  std::vector<at::Tensor> all;
  for (const OutputPlane& p : planes)
    all.push_back((p.*map).defined() ? p.*map : at::full_like(like, std::numeric_limits<double>::quiet_NaN()));
  return (all.size() == 1 ? all[0] : at::stack(all, like.dim() - 2)).contiguous();
}

fits::Pixels view(const at::Tensor& map) {
  const auto n = static_cast<std::size_t>(map.numel());
  if (map.scalar_type() == at::kByte) return std::span<const std::uint8_t>(map.data_ptr<std::uint8_t>(), n);
  if (map.scalar_type() == at::kDouble) return std::span<const double>(map.data_ptr<double>(), n);
  return std::span<const float>(map.data_ptr<float>(), n);
}

/// SRBMAJ, and BMAJ where it is the resolution: not where it defines the unit and values were not converted.
void state_beam(fits::Header& h, const Decisions& d) {
  if (d.beam_out_arcsec <= 0) return;
  double resolution = d.beam_out_arcsec;
  if (d.block_mode) {  // what was blurred before it was binned stays so
    try {
      if (const auto own = fits::header_resolution(h)) resolution = std::max(resolution, own->fwhm_arcsec());
    } catch (const Error&) {  // a BMAJ that is none, which --beam none passed over
    }
  } else {
    const bool unit_beam = d.unit.unit_class == fits::UnitClass::per_beam && d.beam_factor == 1.0;
    // A beam that was told or estimated counts as the input's, and as its unit's where the header has none.
    if (d.beam_source != "header" && !(unit_beam && h.has("BMAJ")))
      fits::set_beam(h, {d.beam_in_arcsec, d.beam_in_arcsec, 0, d.beam_source});
    if (!unit_beam) fits::set_beam(h, {resolution, resolution, 0, "enhanced"});
  }
  h.set("SRBMAJ", resolution / 3600, "[deg] resolution of the output (FWHM)");
}

/// Of a map as it will be written, where there are data.
void require_finite(const at::Tensor& map, const at::Tensor& missing) {
  if (map.masked_fill(missing, 0).isfinite().all().item<bool>()) return;
  throw Error(ExitCode::bad_data, "The map's values span more than 32-bit floats hold: some results are not finite",
              "divide the map by a constant, or set absurd pixels to NaN");
}

}  // namespace

OutputHeader output_header(const fits::Image& image, const Decisions& d, std::int64_t factor, bool drop_distortion) {
  OutputHeader out{image.header, image.header, {}, {}};
  const double s = static_cast<double>(factor);
  fits::ScaleOptions options;
  options.axis_x = image.axis_x;
  options.axis_y = image.axis_y;
  options.drop_distortion = drop_distortion;
  out.warnings = fits::scale_header(out.output, s, s, options).warnings;
  fits::scale_header(out.input, 1, 1, options);
  state_beam(out.output, d);
  out.output.rename("NOISE", "ONOISE");  // of the input's pixels
  out.wcs =
      // Against the input as it now counts: without a distortion that was dropped.
      fits::compare_wcs(out.input, out.output, image.width, image.height, s, s, 0, 0, image.axis_x, image.axis_y);
  // Cards that make no sense were replaced by their defaults in both: the header as it came tells.
  if (const std::string card = fits::senseless_card(image.header, ' ', image.axis_x, image.axis_y); !card.empty())
    out.wcs = {.usable = false, .reason = card};
  if (!out.wcs.usable && !fits::wcs_alternates(image.header).empty())
    out.warnings.push_back("sky coordinates cannot be checked (SRWCSOK = F): " + out.wcs.reason);
  if (out.wcs.usable && !out.wcs.ok())
    out.warnings.push_back("the output's sky coordinates differ from the input's by " +
                           std::to_string(out.wcs.max_distance_px) + " output pixels (SRWCSOK = F)");
  return out;
}

OutputPlane output_plane(const Decisions& d, const Enhanced& e, const Ood& ood, const OutputOptions& options) {
  const at::ScalarType type = options.as_double ? at::kDouble : at::kFloat;
  const at::Tensor missing = enlarged(d.missing, d.observation.sampling.factor);
  const auto written = [&](const at::Tensor& map) {
    if (!map.defined()) return map;
    const at::Tensor rounded = map.to(type);
    require_finite(rounded, missing);
    return without_data(rounded, missing);
  };
  OutputPlane p;
  p.flux_error = flux_error_of(e.mean.to(type), d, e.transform);
  p.mean = written(e.mean);
  p.std = written(e.std);
  p.prior = written(e.prior);
  if (e.members.defined()) p.sample = written(e.members[0]);
  if (options.save_members) p.members = written(e.members);
  p.residual = without_data((d.observation.lr - e.degraded) / d.output_scale, d.missing).to(type);
  p.missing = d.missing;
  p.noise = d.noise;
  p.transform = e.transform;
  p.chi2 = e.chi2;
  p.member_chi2 = e.member_chi2;
  p.ood = ood;
  return p;
}

OutputPlane blank_plane(std::int64_t height, std::int64_t width) {
  OutputPlane p;
  p.missing = at::ones({height, width}, at::kBool);
  return p;
}

Figures figures_of(std::span<const OutputPlane> planes) {
  Figures f;
  double chi2 = 0, member_chi2 = 0, with_chi2 = 0, with_member_chi2 = 0;
  for (const OutputPlane& p : planes) {
    f.flux_error = std::max(f.flux_error, p.flux_error);
    if (p.ood.score > f.ood.score) f.ood = p.ood;
    if (p.chi2) chi2 += *p.chi2, ++with_chi2;
    if (p.member_chi2) member_chi2 += *p.member_chi2, ++with_member_chi2;
  }
  if (with_chi2 > 0) f.chi2 = chi2 / with_chi2;
  if (with_member_chi2 > 0) f.member_chi2 = member_chi2 / with_member_chi2;
  return f;
}

std::string write_output(const fits::Image& image, const OutputHeader& header, const Decisions& d,
                         std::span<const OutputPlane> planes, const Layout& layout, const Model& model,
                         const EnhanceOptions& o, const OutputOptions& options) {
  const std::vector<std::int64_t> axes = fits::output_axes(image, layout.width, layout.height, options.all_planes);
  std::vector<at::Tensor> kept;  // the pixels live until the file is written
  std::vector<fits::OutputHdu> hdus;
  const auto add = [&](const char* name, const at::Tensor& map, const std::vector<std::int64_t>& shape,
                       fits::Header h) {
    if (!map.defined()) return;
    kept.push_back(map);
    hdus.push_back({name, std::move(h), view(kept.back()), shape});
  };
  fits::Header primary = header.output;
  add_provenance(primary, header.wcs, d, planes, layout, model, o, options);
  add("", stacked(planes, &OutputPlane::mean), axes, primary);
  add("STD", stacked(planes, &OutputPlane::std), axes,
      extension_header(header.output, true, "Standard deviation of the ensemble in each pixel."));
  add("SAMPLE", stacked(planes, &OutputPlane::sample), axes,
      extension_header(header.output, true, "Member 0 of the ensemble: the map to use for statistics."));
  std::vector<std::int64_t> with_members = axes;
  with_members.push_back(o.members);
  add("MEMBERS", stacked(planes, &OutputPlane::members), with_members,
      extension_header(header.output, true, "All members of the ensemble, along the last axis."));
  add("RESIDUAL", stacked(planes, &OutputPlane::residual),
      fits::output_axes(image, image.width, image.height, options.all_planes),
      extension_header(header.input, true, "Input minus the degraded output, in the input's pixels."));
  add("PRIOR", stacked(planes, &OutputPlane::prior), axes,
      extension_header(header.output, false, "Share of the added detail's variance that the data do not fix (0..1)."));
  std::vector<at::Tensor> missing;
  for (const OutputPlane& p : planes) missing.push_back(enlarged(p.missing, model.factor).to(at::kByte));
  add("MASK", at::stack(missing).contiguous(), axes,
      extension_header(header.output, false, "1 where the input has no data."));

  fits::WriteOptions write;
  write.overwrite = options.overwrite;
  write.compress = options.compress;
  write.inputs = {image.path};
  write.poll = [] { signals::check_interrupt(); };
  return fits::write_images(options.path, hdus, write);
}

std::string quicklook_png(const fits::Image& image, const Decisions& d, const OutputPlane& plane) {
  std::vector<at::Tensor> kept;  // the pixels live until the picture is drawn
  std::vector<Panel> panels;
  const auto add = [&](const char* title, const at::Tensor& map, bool own_limits) {
    if (!map.defined()) return;
    kept.push_back(map.to(at::kFloat).contiguous());
    const at::Tensor& m = kept.back();
    panels.push_back(
        {title, {m.data_ptr<float>(), static_cast<std::size_t>(m.numel())}, m.size(1), m.size(0), own_limits});
  };
  add("input", without_data(d.observation.lr, d.missing), false);
  add(plane.sample.defined() ? "ensemble mean" : "mean", plane.mean, false);
  add("one sample", plane.sample, false);
  add("standard deviation", plane.std, true);
  QuicklookOptions options;
  options.unit = image.header.get<std::string>("BUNIT").value_or("");
  return draw_panels(panels, options);
}

}  // namespace cirrus::enhance
