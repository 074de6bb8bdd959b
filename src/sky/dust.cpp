// From a spec to a map: the family's log-intensity field, exponentiated; then background, beam, sources, zero level,
// amplitude, noise.
#include "sky/dust.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "base/errors.h"
#include "sky/beam.h"
#include "sky/degrade.h"
#include "sky/families.h"
#include "sky/normal.h"
#include "sky/profile.h"

namespace cirrus::sky {
namespace {

constexpr std::array<std::pair<Family, const char*>, 6> kNames{{{Family::lognormal, "lognormal"},
                                                                {Family::cascade, "cascade"},
                                                                {Family::filaments, "filaments"},
                                                                {Family::advected, "advected"},
                                                                {Family::warped, "warped"},
                                                                {Family::mixed, "mixed"}}};

/// Substreams of one map's address; the families' own follow from Canvas::first_step on.
enum Part : std::uint32_t { part_mixture = 1, part_background = 2, part_sources = 3, part_noise = 4 };

void check(const DustSpec& spec, std::int64_t height, std::int64_t width) {
  if (height < 8 || width < 8)
    throw Error(ExitCode::usage,
                "a synthetic map of " + std::to_string(height) + " x " + std::to_string(width) + " pixels",
                "at least 8 x 8");
  const auto in_range = [](const char* name, double value, double low, double high) {
    if (!(value >= low && value <= high))
      throw Error(ExitCode::usage, std::string(name) + " of a synthetic map is " + std::to_string(value),
                  "from " + std::to_string(low) + " to " + std::to_string(high));
  };
  in_range("beta", spec.beta, 0, 6);
  in_range("sigma", spec.sigma, 0, 4);
  in_range("the beam's FWHM", spec.beam_pixels, 0, 64);
  in_range("the number of sources", static_cast<double>(spec.sources), 0, 1e6);
  in_range("the infrared background", spec.background_cib, 0, 1e3);
  in_range("the zero level", spec.zero_level, -1e6, 1e6);
  in_range("the noise", spec.noise, 0, 1e3);
  in_range("the amplitude", spec.amplitude, 1e-30, 1e30);
}

struct Robust {
  double median, sigma;
};

double median_of(std::vector<float>& values) {
  const auto middle = values.begin() + static_cast<std::int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Robust robust_statistics(const at::Tensor& map) {
  const at::Tensor flat = map.contiguous();
  std::vector<float> values(flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel());
  const double median = median_of(values);
  for (float& v : values) v = std::abs(v - static_cast<float>(median));
  return {median, 1.4826 * median_of(values)};
}

/// Peaks above the map of dN/dS ~ S^-2.5 from 3 robust sigmas on, at most 300, as the beam shows them.
void add_sources(const at::Tensor& map, const DustSpec& spec, Stream& stream, double unit) {
  const Raster raster{map.data_ptr<float>(), map.size(0), map.size(1)};
  const double sigma = std::max(Beam{spec.beam_pixels}.sigma(), 0.3);
  for (std::int64_t i = 0; i < spec.sources; ++i) {
    const double y = stream.uniform(-2, static_cast<double>(raster.height) + 1),
                 x = stream.uniform(-2, static_cast<double>(raster.width) + 1);
    const double flux = std::min(3 * std::pow(stream.uniform(), -1 / 1.5), 300.0) * unit;
    add_gaussian(raster, {y, x, sigma, sigma, 0, flux});
  }
}

}  // namespace

std::string name_of(Family family) {
  for (const auto& [value, name] : kNames)
    if (value == family) return name;
  return "unknown";
}

Family family_of(const std::string& name) {
  for (const auto& [value, known] : kNames)
    if (name == known) return value;
  throw Error(ExitCode::usage, "no family of skies is called '" + name + "'",
              "lognormal, cascade, filaments, advected, warped or mixed");
}

DustSpec draw_spec(Family family, Stream& stream) {
  DustSpec spec;
  spec.family = family;
  const bool shallow = family == Family::cascade || family == Family::advected;
  spec.beta = std::clamp((shallow ? 2.15 : 2.9) + 0.25 * stream.normal(), shallow ? 1.6 : 2.4, shallow ? 2.8 : 3.4);
  spec.sigma = stream.log_uniform(family == Family::cascade ? 0.4 : 0.25, 1.3);
  if (stream.uniform() < 0.25) spec.sources = static_cast<std::int64_t>(stream.log_uniform(3, 60));
  if (stream.uniform() < 0.15) spec.background_cib = stream.log_uniform(0.005, 0.05);
  if (stream.uniform() < 0.5) spec.zero_level = stream.uniform(-2.0, 1.5);
  spec.amplitude = stream.log_uniform(0.03, 300);
  return spec;
}

DustSpec draw_spec(Stream& stream) {
  const double u = stream.uniform();
  const Family family = u < 0.25   ? Family::lognormal
                        : u < 0.45 ? Family::cascade
                        : u < 0.65 ? Family::advected
                        : u < 0.80 ? Family::warped
                                   : Family::filaments;
  return draw_spec(family, stream);
}

at::Tensor log_field(const Canvas& canvas, Family family, double beta, double sigma) {
  switch (family) {
    case Family::lognormal:
      return lognormal_field(canvas, beta);
    case Family::cascade:
      return cascade_field(canvas, beta);
    case Family::filaments:
      return filament_field(canvas, beta, sigma);
    case Family::advected:
      return advected_field(canvas, beta);
    case Family::warped:
      return warped_field(canvas, beta);
    case Family::mixed:
      break;
  }
  Stream stream(Address(canvas.seed, Purpose::sky, canvas.index, part_mixture));
  const auto first = stream.below(5), second = (first + 1 + stream.below(4)) % 5;
  Canvas other = canvas;
  other.first_step += 64;
  const double angle = stream.uniform(0.25, 1.32);
  return standardised(log_field(canvas, static_cast<Family>(first), beta, sigma) * std::cos(angle) +
                      log_field(other, static_cast<Family>(second), beta, sigma) * std::sin(angle));
}

at::Tensor make_dust(const DustSpec& spec, std::uint64_t seed, std::uint64_t index, std::int64_t height,
                     std::int64_t width) {
  check(spec, height, width);
  const double sigma = Beam{spec.beam_pixels}.sigma();
  const auto margin = static_cast<std::int64_t>(std::ceil(6 * sigma)) + (spec.beam_pixels > 0 ? 1 : 0);
  const std::int64_t h = height + 2 * margin, w = width + 2 * margin;
  const Canvas canvas{h, w, Grid::padded(height, width, 4 * margin), seed, index};
  const auto stream = [&](Part part) { return Stream(Address(seed, Purpose::sky, index, part)); };

  at::Tensor map = at::exp(log_field(canvas, spec.family, spec.beta, spec.sigma) * spec.sigma);
  if (spec.background_cib > 0) {
    const at::Tensor cib = standardised(
        canvas.crop(power_law_field(canvas.grid, Address(seed, Purpose::sky, index, part_background), 1.0)));
    // An offset of 0.78 over fluctuations of 0.09 MJy/sr at 100 micron (Miville-Deschenes+ 2007).
    map = map + (cib.clamp_min(-8) + 8.7) * (spec.background_cib * robust_statistics(map).sigma);
  }
  if (sigma > 0) map = Degradation(h, w, sigma, 1).apply(map);
  map = map.slice(0, margin, margin + height).slice(1, margin, margin + width).contiguous();

  const Robust robust = robust_statistics(map);
  if (spec.sources > 0) {
    Stream positions = stream(part_sources);
    add_sources(map, spec, positions, robust.sigma);
  }
  map = (map / robust.median + spec.zero_level) * spec.amplitude;
  if (spec.noise > 0) {
    at::Tensor white = at::empty({height, width}, at::kFloat);
    fill_normal(Address(seed, Purpose::sky, index, part_noise),
                std::span<float>(white.data_ptr<float>(), static_cast<std::size_t>(white.numel())));
    map = map + white * (spec.noise * robust.sigma / robust.median * spec.amplitude);
  }
  return map;
}

}  // namespace cirrus::sky
