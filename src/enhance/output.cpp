// Assembling and writing the output file.
#include "enhance/output.h"

#include <cstdio>

#include "base/errors.h"
#include "base/signals.h"
#include "base/version.h"
#include "enhance/quicklook.h"
#include "fits/writer.h"
#include "sky/degrade.h"

namespace cirrus::enhance {
namespace {

/// One map ready to be written: its pixels must live until the file is.
struct Pixels {
  std::vector<float> single;
  std::vector<double> full;
  fits::Pixels view() const {
    if (!full.empty()) return std::span<const double>(full);
    return std::span<const float>(single);
  }
};
Pixels pixels_of(const at::Tensor& map, bool as_double) {
  const at::Tensor m = map.to(as_double ? at::kDouble : at::kFloat).contiguous();
  Pixels p;
  if (as_double) {
    p.full.assign(m.data_ptr<double>(), m.data_ptr<double>() + m.numel());
  } else {
    p.single.assign(m.data_ptr<float>(), m.data_ptr<float>() + m.numel());
  }
  return p;
}

at::Tensor without_data(const at::Tensor& map, const at::Tensor& missing) { return map.masked_fill(missing, std::numeric_limits<double>::quiet_NaN()); }

double largest_block_error(const at::Tensor& written, const Decisions& d, const metrics::Transform& transform) {
  const std::int64_t s = d.observation.sampling.factor;
  const at::Tensor& y = d.observation.lr;
  const at::Tensor mean = sky::Degradation(written.size(0), written.size(1), 0, s).apply(written.to(at::kDouble));
  const at::Tensor error = ((mean - y).abs() / y.abs().clamp_min(transform.a)).masked_fill(d.missing, 0);
  return error.max().item<double>();
}

double mean_error(const at::Tensor& written, const Decisions& d, const metrics::Transform& transform) {
  const double in = d.observation.lr.mean().item<double>(), out = written.to(at::kDouble).mean().item<double>();
  return std::abs(out - in) / std::max(std::abs(in), transform.a);
}

/// Axis-dependent cards of a plane's header that make no sense in an extension of another kind.
fits::Header extension_header(const fits::Header& primary, const char* unit, const char* what) {
  fits::Header h = primary;
  for (const char* key : {"DATAMIN", "DATAMAX", "DATE-OBS"}) h.erase(key);
  if (unit != nullptr) h.set("BUNIT", std::string(unit));
  h.add_comment(what);
  return h;
}

void add_provenance(fits::Header& h, const Decisions& d, const Enhanced& e, const Model& model, const EnhanceOptions& o, const Ood& ood, const Written& w, const OutputOptions& options) {
  h.set("SRVERS", std::string(kVersion), "version of Cirrus");
  h.set("SRMODEL", model.name, "super-resolution model");
  h.set("SRSHA", model.sha256.substr(0, 16), "first 16 digits of its file's sha256");
  h.set("SRSCALE", model.factor, "output pixels along the side of an input pixel");
  h.set("SRMODE", std::string(d.block_mode ? "block" : "beam"), "block: exact mean of pixels; beam: within noise");
  if (d.beam_out_arcsec > 0) h.set("SRBMAJ", d.beam_out_arcsec / 3600, "[deg] resolution of the output (FWHM)");
  if (!d.block_mode) h.set("SRNOISE", d.noise, "noise of the input (sigma): " + d.noise_source);
  h.set("SRSEED", static_cast<std::int64_t>(o.seed), "seed of the noise");
  h.set("SRNMEM", o.sampler.name == "mean" ? std::int64_t{1} : o.members, "ensemble members");
  h.set("SRSTEPS", static_cast<std::int64_t>(diffusion::evaluations(o.sampler)), "network evaluations a member");
  h.set("SRSAMPLR", o.sampler.name, "sampler");
  h.set("SRNORMM", e.transform.m, "median m of asinh((I - m)/a)");
  h.set("SRNORMA", e.transform.a, "width a of asinh((I - m)/a)");
  h.set("SRTILE", std::max(e.layout.rows.tile, e.layout.columns.tile), "tile, output pixels");
  h.set("SROVERL", std::string(e.layout.tiles() == 1 ? "one tile" : o.exact_overlap ? "exact" : o.overlap < 0 ? "half a tile" : std::to_string(o.overlap)), "overlap of tiles");
  if (e.chi2) h.set("SRCHI2", *e.chi2, "mean ((input - D output)/noise)^2");
  h.set("SRFLUX", w.flux_error, d.block_mode ? "largest relative error of a block mean" : "relative error of the map's mean");
  h.set("SROOD", ood.flag, ood.flag ? "input outside what the model was trained on" : "input within the trained range");
  h.set("SRWCSOK", w.wcs.usable ? w.wcs.ok() : false, w.wcs.usable ? "sky positions checked against the input" : "no usable sky coordinates to check");
  h.add_history("Cirrus " + std::string(kVersion) + ": " + options.command);
  h.add_history("Computed on " + options.device + " in " + options.dtype + ".");
  h.add_history("Unit: " + d.unit.reason);
  h.add_history("Beam: " + d.beam_source + ": " + d.beam_reason);
  if (ood.flag) h.add_history("Out of distribution: " + ood.reason);
  h.add_comment("Super-resolved: structure below the resolution of the input is statistical, not measured.");
}

}  // namespace

Ood check_distribution(const Decisions& d, const Model& model) {
  Ood out;
  const auto judge = [&](double excess, const std::string& reason) {
    if (excess > out.score) {
      out.score = excess;
      if (excess > 1) out.reason = reason;
    }
  };
  char text[200];
  const Observation& o = d.observation;
  const metrics::Transform t = metrics::Transform::of(o.lr);
  const double contrast = (o.lr.max().item<double>() - t.m) / t.a;
  std::snprintf(text, sizeof(text), "its brightest pixel lies %.4g robust sigmas above the median; training went to about 3000", contrast);
  judge(contrast / 3000, text);
  const auto range = [&](const nlohmann::json& r, double v, const char* what) {
    const double low = r[0], high = r[1];
    std::snprintf(text, sizeof(text), "%s is %.4g; training covered %.4g to %.4g", what, v, low, high);
    judge(std::max(v / high, low / v), text);
  };
  try {
    const nlohmann::json& beams = model.card.at("beams");
    range(beams.at("output_range"), o.sampling.beam_out, "the output's beam in output pixels");
    if (!d.block_mode) {
      range(beams.at("input_range_lr_pixels"), o.sampling.beam_in / static_cast<double>(o.sampling.factor), "the input's beam in its pixels");
      range(model.card.at("noise").at("snr"), t.a / o.noise, "the signal-to-noise ratio (robust sigma over noise)");
    }
  } catch (const nlohmann::json::exception& e) {
    throw Error(ExitCode::bad_data, "Model " + model.name + ": its metadata lack beams or noise: " + e.what());
  }
  out.flag = out.score > 1;
  return out;
}

fits::Header scaled_header(const fits::Image& image, const Decisions& d, std::int64_t factor, bool drop_distortion, std::vector<std::string>& warnings) {
  fits::Header h = image.header;
  const double s = static_cast<double>(factor);
  fits::ScaleOptions options;
  options.axis_x = image.axis_x;
  options.axis_y = image.axis_y;
  options.drop_distortion = drop_distortion;
  const fits::ScaleReport report = fits::scale_header(h, s, s, options);
  warnings.insert(warnings.end(), report.warnings.begin(), report.warnings.end());
  if (d.beam_factor != 1.0) {
    fits::Beam beam{d.beam_out_arcsec, d.beam_out_arcsec, 0, "--beam-out"};
    fits::change_unit_beam(h, beam);
  }
  return h;
}

Written write_output(const fits::Image& image, const Decisions& d, const Enhanced& e, const Model& model, const EnhanceOptions& o, const Ood& ood, const OutputOptions& options) {
  Written w;
  const std::int64_t s = model.factor;
  const double sum_factor = d.unit.divides() ? static_cast<double>(s * s) : 1.0;
  const at::Tensor missing = d.missing.repeat_interleave(s, 0).repeat_interleave(s, 1);
  fits::Header header = scaled_header(image, d, s, options.drop_distortion, w.warnings);
  w.wcs = fits::compare_wcs(image.header, header, image.width, image.height, static_cast<double>(s), static_cast<double>(s), 0, 0, image.axis_x, image.axis_y);
  if (w.wcs.usable && !w.wcs.ok()) w.warnings.push_back("the output's sky coordinates differ from the input's by " + std::to_string(w.wcs.max_distance_px) + " output pixels (SRWCSOK = F)");

  const at::Tensor rounded = e.mean.to(options.as_double ? at::kDouble : at::kFloat);
  w.flux_error = d.block_mode ? largest_block_error(rounded, d, e.transform) : mean_error(rounded, d, e.transform);

  std::vector<Pixels> pixels;
  std::vector<std::pair<fits::OutputHdu, std::size_t>> parts;
  const std::vector<std::int64_t> axes = fits::output_axes(image, e.mean.size(1), e.mean.size(0));
  const auto add = [&](const char* name, fits::Header h, const at::Tensor& map, std::vector<std::int64_t> shape) {
    pixels.push_back(pixels_of(map, options.as_double));
    parts.push_back({fits::OutputHdu{name, std::move(h), {}, std::move(shape)}, pixels.size() - 1});
  };
  fits::Header primary = header;
  add_provenance(primary, d, e, model, o, ood, w, options);
  add("", primary, without_data(e.mean, missing), axes);
  if (e.std.defined()) add("STD", extension_header(header, nullptr, "Standard deviation of the ensemble in each pixel."), without_data(e.std, missing), axes);
  if (e.members.defined()) add("SAMPLE", extension_header(header, nullptr, "Member 0 of the ensemble: the map to use for statistics."), without_data(e.members[0], missing), axes);
  if (options.save_members && e.members.defined()) {
    fits::Header h = extension_header(header, nullptr, "All members of the ensemble, one a plane.");
    std::vector<std::int64_t> cube = axes;
    cube.push_back(e.members.size(0));
    add("MEMBERS", h, without_data(e.members, missing), cube);
  }
  fits::Header input = image.header;
  {
    fits::ScaleOptions same;
    same.axis_x = image.axis_x;
    same.axis_y = image.axis_y;
    same.drop_distortion = options.drop_distortion;
    fits::scale_header(input, 1, 1, same);  // drops scaling and checksum keywords of the stored form
  }
  add("RESIDUAL", extension_header(input, nullptr, "Input minus the degraded output, in the input's pixels."),
      without_data((d.observation.lr - e.degraded) * sum_factor, d.missing), fits::output_axes(image, image.width, image.height));
  if (e.prior.defined()) add("PRIOR", extension_header(header, "", "Share of the added detail's variance that the data do not fix (0..1)."), without_data(e.prior, missing), axes);

  std::vector<fits::OutputHdu> hdus;
  for (auto& [hdu, index] : parts) {
    hdu.pixels = pixels[index].view();
    hdus.push_back(std::move(hdu));
  }
  const at::Tensor mask = missing.to(at::kByte).contiguous();
  hdus.push_back({"MASK", extension_header(header, "", "1 where the input has no data."), std::span<const std::uint8_t>(mask.data_ptr<std::uint8_t>(), static_cast<std::size_t>(mask.numel())), axes});

  fits::WriteOptions write;
  write.overwrite = options.overwrite;
  write.compress = options.compress;
  write.inputs = {image.path};
  write.poll = [] { signals::check_interrupt(); };
  w.fits = fits::write_images(options.path, hdus, write);
  return w;
}

std::string quicklook_png(const fits::Image& image, const Decisions& d, const Enhanced& e) {
  const std::int64_t s = d.observation.sampling.factor;
  const at::Tensor missing = d.missing.repeat_interleave(s, 0).repeat_interleave(s, 1);
  std::vector<Pixels> pixels;
  pixels.reserve(4);
  std::vector<Panel> panels;
  const auto add = [&](const char* title, const at::Tensor& map, bool own_limits) {
    pixels.push_back(pixels_of(map, false));
    panels.push_back({title, pixels.back().single, map.size(1), map.size(0), own_limits});
  };
  add("input", without_data(d.observation.lr, d.missing), false);
  add("ensemble mean", without_data(e.mean, missing), false);
  if (e.members.defined()) add("one sample", without_data(e.members[0], missing), false);
  if (e.std.defined()) add("standard deviation", without_data(e.std, missing), true);
  QuicklookOptions options;
  options.unit = image.header.get<std::string>("BUNIT").value_or("");
  return draw_panels(panels, options);
}

}  // namespace cirrus::enhance
