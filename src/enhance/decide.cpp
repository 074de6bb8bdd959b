// Decisions from flags, header and the map itself, in this order.
#include "enhance/decide.h"

#include <cstdio>

#include "base/errors.h"
#include "enhance/estimate.h"
#include "fits/header_beam.h"
#include "fits/mask.h"
#include "sky/angle.h"

namespace cirrus::enhance {
namespace {

constexpr double kWidestBeam = 32;     // FWHM in input pixels: time and memory of the consistency grow with its square
constexpr std::int64_t kSmallest = 4;  // pixels a side
constexpr double kFaintest = 1e-34;    // of the brightest pixel: float32 ends at 1.2e-38
constexpr double kUsualMargin = 1.05;  // an input beam must exceed the output's by so much

std::string text(const char* pattern, double a, double b = 0) {
  char buffer[200];
  std::snprintf(buffer, sizeof(buffer), pattern, a, b);
  return buffer;
}

std::string hdu_of(const fits::Image& image) { return image.path + ", HDU " + std::to_string(image.hdu_number); }

/// Pixels as a tensor, gaps filled, and where they were.
void take_pixels(const fits::Image& image, Decisions& d) {
  if (image.width < kSmallest || image.height < kSmallest)
    throw Error(ExitCode::bad_data,
                hdu_of(image) + ": an image of " + std::to_string(image.width) + " x " + std::to_string(image.height) +
                    " pixels is too small to enhance",
                "at least " + std::to_string(kSmallest) + " pixels a side are needed");
  if (fits::is_blank(image))
    throw Error(ExitCode::bad_data, hdu_of(image) + ": no pixel of the image has a value (all are NaN or blank)",
                "choose another HDU or plane");
  std::vector<double> pixels = image.pixels;
  const std::vector<std::uint8_t> invalid = fits::invalid_mask(pixels);
  d.missing = at::empty({image.height, image.width}, at::kBool);
  std::copy(invalid.begin(), invalid.end(), d.missing.data_ptr<bool>());
  fits::fill_invalid(pixels, image.width, image.height);
  d.observation.lr = at::tensor(pixels, at::kDouble).view({image.height, image.width});
  const double largest = d.observation.lr.abs().max().item<double>();
  if (largest > 0 && largest < kFaintest)
    throw Error(ExitCode::bad_data,
                hdu_of(image) + text(": its values, at most %.3g, are too small for 32-bit floats", largest),
                "multiply the map by a constant, and name it in BUNIT");
}

/// Pixels that no beam and no sky explains: far above the map, and above all of their neighbours together.
void warn_of_hot_pixels(Decisions& d) {
  constexpr double kFar = 50, kAbove = 8;
  const metrics::Transform transform = transform_of(d.observation.lr);
  const at::Tensor height = (d.observation.lr - transform.m).abs();
  const at::Tensor around = at::constant_pad_nd(height, {1, 1, 1, 1});
  at::Tensor neighbours = at::zeros_like(height);
  for (std::int64_t y = 0; y < 3; ++y)
    for (std::int64_t x = 0; x < 3; ++x)
      if (y != 1 || x != 1)
        neighbours = at::maximum(neighbours, around.narrow(0, y, height.size(0)).narrow(1, x, height.size(1)));
  const at::Tensor hot = (height > kFar * transform.a).logical_and(height > kAbove * neighbours).nonzero();
  if (hot.size(0) == 0) return;
  const auto y = hot[0][0].item<std::int64_t>(), x = hot[0][1].item<std::int64_t>();
  d.warnings.push_back(std::to_string(hot.size(0)) +
                       " pixel(s) outshine all neighbours by more than 8 times, the first at (" +
                       std::to_string(x + 1) + ", " + std::to_string(y + 1) + ") with " +
                       text("%.6g", d.observation.lr[y][x].item<double>()) +
                       ": a hot pixel or a cosmic ray? Set it to NaN, or the output around it means nothing");
}

/// A positive angle in arcsec.
double angle_of(const std::string& flag, const std::string& value) {
  const double arcsec = sky::arcsec_of(value);
  if (!(arcsec > 0))
    throw Error(ExitCode::usage, flag + " " + value + " is not a positive angle",
                "write 18.2arcsec, 5arcmin, 0.01deg, or none");
  return arcsec;
}

double pixel_scale_for(const fits::Image& image, const Decisions& d, const char* what) {
  if (d.pixel_arcsec > 0) return d.pixel_arcsec;
  throw Error(
      ExitCode::bad_data,
      hdu_of(image) + ": " + what + " is an angle, but the header has no celestial coordinates to turn it into pixels",
      "use --beam none");
}

void take_no_beam(Decisions& d, const std::string& reason) {
  d.beam_source = "none";
  d.beam_reason = reason;
  d.beam_in_arcsec = 0;
}

/// FWHM of the input's beam in its pixels (0: block mode), with source and reason.
double decide_beam(const fits::Image& image, const ObservationChoice& choice, Decisions& d) {
  const double factor = static_cast<double>(choice.factor), beam_out = d.observation.sampling.beam_out;
  const auto too_small = [&](double fwhm) { return factor * fwhm < kUsualMargin * beam_out; };
  const auto smaller = [&](double fwhm) {
    return text("(%.3g output pixels FWHM) is not wider than the output's (%.3g)", factor * fwhm, beam_out);
  };
  if (choice.beam_pixels) {
    d.beam_source = *choice.beam_pixels > 0 ? "estimated" : "none";
    d.beam_reason = "as for the first plane";
    d.beam_in_arcsec = *choice.beam_pixels * d.pixel_arcsec;
    return *choice.beam_pixels;
  }
  if (choice.beam == "none") {
    take_no_beam(d, "--beam none: the map is taken as an exact block mean of the sky");
    return 0;
  }
  if (choice.beam != "auto") {
    d.beam_source = "flag";
    d.beam_in_arcsec = angle_of("--beam", choice.beam);
    d.beam_reason = text("--beam: FWHM %.6g arcsec", d.beam_in_arcsec);
    const double fwhm = d.beam_in_arcsec / pixel_scale_for(image, d, "--beam");
    if (too_small(fwhm))
      throw Error(ExitCode::bad_data, hdu_of(image) + ": the input's beam " + smaller(fwhm),
                  "use --beam none, a larger --factor, or a smaller --beam-out");
    return fwhm;
  }
  const auto header = fits::header_resolution(image.header);
  const BeamEstimate estimate = header ? BeamEstimate{} : estimate_beam(d.observation.lr, d.missing);
  if (!header && !estimate.fwhm) {
    take_no_beam(d, estimate.reason);
    d.warnings.push_back("no beam in the header and " + estimate.reason +
                         ": the map is taken as an exact block mean (--beam FWHM tells otherwise)");
    return 0;
  }
  double fwhm = 0;
  if (header) {
    d.beam_source = "header";
    d.beam_in_arcsec = header->fwhm_arcsec();
    d.beam_reason = header->source + text(": FWHM %.6g arcsec", d.beam_in_arcsec);
    if (header->is_elliptical())
      d.warnings.push_back(text("the beam is elliptical (%.4g x %.4g arcsec): a circular one of equal area is assumed",
                                header->major_arcsec, header->minor_arcsec));
    fwhm = d.beam_in_arcsec / pixel_scale_for(image, d, "the header's beam");
  } else {
    d.beam_source = "estimated";
    fwhm = *estimate.fwhm;
    d.beam_in_arcsec = fwhm * d.pixel_arcsec;
    d.beam_reason = estimate.reason + (d.pixel_arcsec > 0 ? text(" = %.6g arcsec", d.beam_in_arcsec) : "");
  }
  if (too_small(fwhm)) {
    if (!choice.beam_out.empty())
      throw Error(ExitCode::bad_data, hdu_of(image) + ": the input's beam " + smaller(fwhm),
                  "use a smaller --beam-out");
    const std::string reason = d.beam_reason + ", which " + smaller(fwhm) + ": the map is taken as an exact block mean";
    d.warnings.push_back(reason);
    take_no_beam(d, reason);
    return 0;
  }
  if (!header)
    d.warnings.push_back("no beam in the header; ESTIMATED from the map: " + d.beam_reason +
                         ". Give --beam FWHM if you know it");
  return fwhm;
}

/// Sigma of the noise, in the map's unit; the map's own is told, estimated, or none.
void decide_noise(const fits::Image& image, const ObservationChoice& choice, Decisions& d) {
  if (choice.noise != "auto") {
    char* end = nullptr;
    d.noise = std::strtod(choice.noise.c_str(), &end);
    if (end == choice.noise.c_str() || *end != 0 || !(d.noise > 0) || !std::isfinite(d.noise))
      throw Error(ExitCode::usage, "--noise '" + choice.noise + "' is not a positive number",
                  "give sigma in the map's unit, or auto");
    d.noise_source = "flag";
  }
  if (d.block_mode) {
    if (choice.noise != "auto")
      d.warnings.push_back("--noise has no effect without a beam: the map is reproduced exactly, noise included");
    d.noise = 0;
    d.noise_source = "block mode: none";
    return;
  }
  if (d.noise_source.empty()) {
    const auto at = image.header.find("NOISE");
    const std::string card = at ? image.header.cards()[*at].value_text() : "";
    if (const auto noise = image.header.get<double>("NOISE"); noise && *noise > 0) {
      d.noise = *noise;
      d.noise_source = "header NOISE";
    } else {
      if (!card.empty()) d.warnings.push_back("NOISE = " + card + " is not a sigma in the map's unit: not used");
      d.noise = estimate_noise(d.observation.lr, d.missing);
      d.noise_source = "estimated from differences of neighbouring pixels";
      d.warnings.push_back("no noise in the header; ESTIMATED from the map: sigma " + text("%.4g", d.noise) +
                           ". Give --noise SIGMA if you know it");
    }
  }
  // A map cannot be better known than its numbers: rounding of the file, and of float32.
  const double least =
      std::max(1e-6 * d.observation.lr.std(false).item<double>(), 1e-7 * d.observation.lr.mean().abs().item<double>());
  if (d.noise < least) {
    d.noise = least;
    d.noise_source += ", raised to the rounding of the map's own numbers";
  }
  if (!(d.noise > 0)) d.noise = 1;  // a map of zeros has no scale: any noise serves
}

}  // namespace

Decisions decide(const fits::Image& image, const ObservationChoice& choice) {
  Decisions d;
  d.warnings = image.warnings;
  take_pixels(image, d);
  d.unit = fits::decide_unit(image.header, choice.unit_type);
  d.warnings.insert(d.warnings.end(), d.unit.warnings.begin(), d.unit.warnings.end());
  if (const auto scale = fits::pixel_scale(image.header, image.axis_x, image.axis_y)) {
    d.pixel_arcsec = scale->arcsec;
    if (scale->anisotropy > 1.02)
      d.warnings.push_back(text("pixels are not square (%.4g x %.4g arcsec): beams are circular in pixels here",
                                scale->x_arcsec, scale->y_arcsec));
  }
  if (const std::string model = image.header.get<std::string>("SRMODEL").value_or(""); !model.empty())
    d.warnings.push_back("the map is itself super-resolved (SRMODEL = " + model +
                         "): part of its detail is generated, and is taken for measured here");
  warn_of_hot_pixels(d);
  const double factor = static_cast<double>(choice.factor);
  Sampling& sampling = d.observation.sampling;
  sampling.factor = choice.factor;
  sampling.beam_out = choice.beam_out.empty()
                          ? choice.usual_beam_pixels
                          : angle_of("--beam-out", choice.beam_out) * factor / pixel_scale_for(image, d, "--beam-out");
  const double fwhm = decide_beam(image, choice, d);
  if (!(fwhm <= kWidestBeam))
    throw Error(ExitCode::bad_data,
                hdu_of(image) +
                    text(": the input's beam, %.6g arcsec, is %.4g of its pixels wide", d.beam_in_arcsec, fwhm) +
                    text(" (at most %.4g are supported)", kWidestBeam),
                "check it (BMAJ is in degrees, --beam in arcsec unless it has a unit), or bin the map to two or three "
                "pixels a beam "
                "first: nothing is lost");
  sampling.beam_in = factor * fwhm;
  d.block_mode = sampling.beam_in <= 0;
  d.beam_out_arcsec = sampling.beam_out * d.pixel_arcsec / factor;
  if (!choice.beam_out.empty() && d.block_mode)
    throw Error(ExitCode::usage, "--beam-out needs the beam of the input",
                "give --beam FWHM as well, or leave --beam-out away");
  if (!choice.beam_out.empty() && d.unit.unit_class == fits::UnitClass::per_beam) {
    fits::Header header = image.header;  // the unit's beam is the header's, whatever the map was seen through
    d.beam_factor = fits::change_unit_beam(header, {d.beam_out_arcsec, d.beam_out_arcsec, 0, "--beam-out"});
  }
  decide_noise(image, choice, d);
  // Per-pixel units: a block's sum is conserved; inside, everything is a mean over output pixels.
  d.output_scale = (d.unit.divides() ? 1 / (factor * factor) : 1.0) * d.beam_factor;
  d.observation.lr = d.observation.lr * d.output_scale;
  d.observation.noise = d.noise * d.output_scale;
  return d;
}

}  // namespace cirrus::enhance
