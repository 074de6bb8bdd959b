// Decisions from flags, header and the map itself, in this order.
#include "enhance/decide.h"

#include <cstdio>

#include "base/errors.h"
#include "enhance/estimate.h"
#include "fits/mask.h"
#include "sky/angle.h"

namespace cirrus::enhance {
namespace {

constexpr std::int64_t kSmallest = 4;   // pixels a side
constexpr double kUsualMargin = 1.05;   // an input beam must exceed the output's by so much

std::string text(const char* pattern, double a, double b = 0) {
  char buffer[200];
  std::snprintf(buffer, sizeof(buffer), pattern, a, b);
  return buffer;
}

std::string hdu_of(const fits::Image& image) { return image.path + "[" + std::to_string(image.hdu_number) + "]"; }

/// Pixels as a tensor, gaps filled, and where they were.
void take_pixels(const fits::Image& image, Decisions& d) {
  if (image.width < kSmallest || image.height < kSmallest)
    throw Error(ExitCode::bad_data, hdu_of(image) + ": an image of " + std::to_string(image.width) + " x " + std::to_string(image.height) + " pixels is too small to enhance",
                "at least " + std::to_string(kSmallest) + " pixels a side are needed");
  std::vector<double> pixels = image.pixels;
  const std::vector<std::uint8_t> invalid = fits::invalid_mask(pixels);
  d.missing = at::empty({image.height, image.width}, at::kBool);
  std::copy(invalid.begin(), invalid.end(), d.missing.data_ptr<bool>());
  fits::fill_invalid(pixels, image.width, image.height);  // throws for all-NaN
  d.observation.lr = at::tensor(pixels, at::kDouble).view({image.height, image.width});
}

/// Beam of the input in input pixels (0: block mode), with source and reason.
double decide_beam(const fits::Image& image, const ObservationChoice& choice, Decisions& d) {
  const auto in_pixels = [&](double arcsec, const char* what) {
    if (d.pixel_arcsec <= 0)
      throw Error(ExitCode::bad_data, hdu_of(image) + ": " + what + " is an angle, but the header has no celestial coordinates to turn it into pixels", "use --beam none");
    d.beam_in_arcsec = arcsec;
    return arcsec / d.pixel_arcsec;
  };
  if (choice.beam == "none") {
    d.beam_source = "none";
    d.beam_reason = "--beam none: the map is taken as an exact block mean of the sky";
    return 0;
  }
  if (choice.beam != "auto") {
    d.beam_source = "flag";
    const double arcsec = sky::arcsec_of(choice.beam);
    d.beam_reason = text("--beam: FWHM %.6g arcsec", arcsec);
    return in_pixels(arcsec, "--beam");
  }
  if (const auto beam = fits::header_beam(image.header)) {
    d.beam_source = "header";
    d.beam_reason = beam->source + text(": FWHM %.6g arcsec", beam->fwhm_arcsec());
    if (beam->major_arcsec > 1.05 * beam->minor_arcsec) d.warnings.push_back(text("the beam is elliptical (%.4g x %.4g arcsec): a circular one of equal area is assumed", beam->major_arcsec, beam->minor_arcsec));
    return in_pixels(beam->fwhm_arcsec(), "the header's beam");
  }
  const BeamEstimate estimate = estimate_beam(d.observation.lr);
  d.beam_reason = estimate.reason;
  if (!estimate.fwhm) {
    d.beam_source = "none";
    d.warnings.push_back("no beam in the header and " + estimate.reason + ": the map is taken as an exact block mean (--beam FWHM tells otherwise)");
    return 0;
  }
  d.beam_source = "estimated";
  d.beam_in_arcsec = *estimate.fwhm * d.pixel_arcsec;
  d.warnings.push_back("no beam in the header; ESTIMATED from the map: " + estimate.reason + (d.pixel_arcsec > 0 ? text(" = %.4g arcsec", d.beam_in_arcsec) : "") +
                       ". Give --beam FWHM if you know it");
  return *estimate.fwhm;
}

void decide_noise(const fits::Image& image, const ObservationChoice& choice, Decisions& d) {
  if (d.block_mode) {
    d.noise_source = "block mode: none";
    if (choice.noise != "auto") d.warnings.push_back("--noise has no effect with --beam none: the map is reproduced exactly, noise included");
    return;
  }
  if (choice.noise != "auto") {
    char* end = nullptr;
    d.noise = std::strtod(choice.noise.c_str(), &end);
    if (end == choice.noise.c_str() || *end != 0 || !(d.noise > 0) || !std::isfinite(d.noise))
      throw Error(ExitCode::usage, "--noise '" + choice.noise + "' is not a positive number", "give sigma in the map's unit, or auto");
    d.noise_source = "flag";
  } else if (const auto noise = image.header.get<double>("NOISE"); noise && *noise > 0) {
    d.noise = *noise;
    d.noise_source = "header NOISE";
  } else {
    d.noise = estimate_noise(d.observation.lr);
    d.noise_source = "estimated beyond 0.4 cycles per pixel";
  }
  // A map cannot be better known than its numbers: rounding of the file, and of float32.
  const double spread = d.observation.lr.std(false).item<double>();
  d.noise = std::max(d.noise, 1e-6 * spread);
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
    if (scale->anisotropy > 1.02) d.warnings.push_back(text("pixels are not square (%.4g x %.4g arcsec): beams are circular in pixels here", scale->x_arcsec, scale->y_arcsec));
  }
  const double factor = static_cast<double>(choice.factor);
  Sampling& sampling = d.observation.sampling;
  sampling.factor = choice.factor;
  sampling.beam_out = choice.usual_beam_pixels;
  sampling.beam_in = factor * decide_beam(image, choice, d);
  d.block_mode = sampling.beam_in <= 0;
  if (!choice.beam_out.empty()) {
    if (d.block_mode || d.pixel_arcsec <= 0)
      throw Error(ExitCode::usage, "--beam-out needs an input beam and celestial coordinates", "give --beam FWHM as well");
    d.beam_out_arcsec = sky::arcsec_of(choice.beam_out);
    sampling.beam_out = d.beam_out_arcsec * factor / d.pixel_arcsec;
    if (d.unit.unit_class == fits::UnitClass::per_beam) d.beam_factor = std::pow(d.beam_out_arcsec / d.beam_in_arcsec, 2);
  }
  if (d.pixel_arcsec > 0) d.beam_out_arcsec = sampling.beam_out * d.pixel_arcsec / factor;
  if (!d.block_mode && sampling.beam_in < kUsualMargin * sampling.beam_out)
    throw Error(ExitCode::bad_data, hdu_of(image) + text(": the input's beam (%.3g output pixels FWHM) is not wider than the output's (%.3g)", sampling.beam_in, sampling.beam_out),
                "use --beam none, a smaller --factor, or a smaller --beam-out");
  decide_noise(image, choice, d);
  // Per-pixel units: a block's sum is conserved; inside, everything is a mean over output pixels.
  const double share = d.unit.divides() ? 1 / (factor * factor) : 1.0;
  d.observation.lr = d.observation.lr * (share * d.beam_factor);
  d.observation.noise = d.noise * share * d.beam_factor;
  return d;
}

}  // namespace cirrus::enhance
