// Cases and the model's answers to them.
#include "enhance/evaluation_case.h"

#include <filesystem>

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "enhance/estimate.h"
#include "fits/header_beam.h"
#include "fits/image.h"
#include "fits/mask.h"
#include "fits/units.h"
#include "fits/wcs_check.h"
#include "kernels/normal_noise.h"
#include "sky/angle.h"
#include "sky/beam.h"
#include "sky/degrade.h"

namespace cirrus::enhance {
namespace {

namespace fs = std::filesystem;

constexpr double kUsualBeam = 2.3, kUsualSnr = 30, kSmallestNoise = 1e-100;

struct Map {
  fits::Image image;
  at::Tensor pixels;  ///< float64, gaps filled
  double pixel_arcsec = 0;
};
Map read_map(const std::string& path) {
  Map m{fits::read_image(path), {}, 0};
  fits::fill_invalid(m.image.pixels, m.image.width, m.image.height);
  m.pixels = at::tensor(m.image.pixels, at::kDouble).view({m.image.height, m.image.width});
  if (const auto scale = fits::pixel_scale(m.image.header, m.image.axis_x, m.image.axis_y))
    m.pixel_arcsec = scale->arcsec;
  return m;
}

MapToEvaluate described(const Map& truth, const std::string& name) {
  MapToEvaluate out;
  out.name = name;
  out.family = truth.image.header.get<std::string>("FAMILY").value_or("-");
  out.unit = truth.image.header.get<std::string>("BUNIT").value_or("");
  out.question.truth = truth.pixels;
  return out;
}

/// FWHM of the truth's own beam in its pixels; 0 if the header has none.
double own_beam(const Map& truth) {
  if (truth.pixel_arcsec <= 0) return 0;
  if (const auto arcsec = truth.image.header.get<double>("BEAMHR")) return *arcsec / truth.pixel_arcsec;
  if (const auto beam = fits::header_resolution(truth.image.header)) return beam->fwhm_arcsec() / truth.pixel_arcsec;
  return 0;
}

/// Two maps of a pair that do not lie on one sky or are not in one unit.
void warn_of_another_sky(const fits::Image& lr, const fits::Image& truth, std::int64_t factor) {
  const auto unit = [](const fits::Image& image) { return image.header.get<std::string>("BUNIT").value_or(""); };
  if (unit(lr) != unit(truth))
    log::warning(lr.path + " is in '" + unit(lr) + "', " + truth.path + " in '" + unit(truth) + "'");
  const auto s = static_cast<double>(factor);
  const fits::WcsCheck check =
      fits::compare_wcs(lr.header, truth.header, lr.width, lr.height, s, s, 0, 0, lr.axis_x, lr.axis_y);
  if (check.usable && !check.ok(0.1))
    log::warning(lr.path + " and " + truth.path + " differ in their sky positions by up to " +
                 std::to_string(check.max_distance_px) + " pixels of the latter");
}

}  // namespace

Degrading parse_degrading(const std::string& text) {
  Degrading d;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(',', at), text.size()), equals = text.find('=', at);
    const std::string key = text.substr(at, std::min(equals, end) - at),
                      value = equals < end ? text.substr(equals + 1, end - equals - 1) : "";
    if (key == "beam") {
      d.beam_arcsec = sky::arcsec_of(value);
    } else if (key == "noise") {
      char* rest = nullptr;
      d.noise = std::strtod(value.c_str(), &rest);
      if (value.empty() || *rest != 0 || !(*d.noise >= 0))
        throw Error(ExitCode::usage, "--degrade noise='" + value + "' is not a number");
    } else {
      throw Error(ExitCode::usage, "--degrade knows beam=FWHM and noise=SIGMA, not '" + key + "'");
    }
    at = end + 1;
  }
  return d;
}

MapToEvaluate degraded_case(const std::string& path, std::int64_t factor, const std::string& mode,
                            const Degrading& degrading, std::uint64_t seed) {
  Map truth = read_map(path);
  const std::int64_t h = truth.pixels.size(0) / factor * factor, w = truth.pixels.size(1) / factor * factor;
  if (h < 4 * factor || w < 4 * factor)
    throw Error(ExitCode::bad_data, path + " is too small to be degraded by " + std::to_string(factor));
  truth.pixels = truth.pixels.narrow(0, 0, h).narrow(1, 0, w).contiguous();
  MapToEvaluate out = described(truth, fs::path(path).filename().string());
  metrics::Case& c = out.question;
  c.factor = factor;
  c.beam_hr = own_beam(truth);
  if (mode == "block") {
    c.lr = sky::Degradation(h, w, 0, factor).apply(c.truth);
    return out;
  }
  const double s = static_cast<double>(factor);
  if (degrading.beam_arcsec && truth.pixel_arcsec <= 0)
    throw Error(ExitCode::bad_data, path + ": --degrade beam=FWHM needs celestial coordinates in the header");
  c.beam_lr = degrading.beam_arcsec ? *degrading.beam_arcsec / truth.pixel_arcsec : s * kUsualBeam;
  // A map whose beam is unknown counts as seen through the usual one: what it holds below that is noise.
  if (c.beam_hr <= 0) c.beam_hr = kUsualBeam;
  const at::Tensor clean =
      sky::Degradation(h, w, sky::Beam{c.beam_lr}.difference(sky::Beam{c.beam_hr}).sigma(), factor).apply(c.truth);
  c.noise = degrading.noise ? *degrading.noise : metrics::Transform::of(clean).a / kUsualSnr;
  c.lr = clean + *c.noise * kernels::normal_noise({1, 1, h / factor, w / factor}, {seed, Purpose::degrade, {0}})
                                .to(at::kDouble)
                                .view({h / factor, w / factor});
  return out;
}

MapToEvaluate paired_case(const std::string& lr_path, const std::string& truth_path) {
  const Map lr = read_map(lr_path), truth = read_map(truth_path);
  MapToEvaluate out = described(truth, fs::path(lr_path).filename().string());
  metrics::Case& c = out.question;
  c.lr = lr.pixels;
  c.factor = truth.pixels.size(0) / std::max<std::int64_t>(lr.pixels.size(0), 1);
  if (c.factor < 1 || truth.pixels.size(0) != c.factor * lr.pixels.size(0) ||
      truth.pixels.size(1) != c.factor * lr.pixels.size(1))
    throw Error(ExitCode::bad_data, truth_path + " is not a whole multiple of " + lr_path + " in size",
                "cut both to the same sky first");
  warn_of_another_sky(lr.image, truth.image, c.factor);
  c.beam_hr = own_beam(truth);
  const auto beam = fits::header_resolution(lr.image.header);
  if (!beam) return out;
  if (truth.pixel_arcsec <= 0)
    throw Error(ExitCode::bad_data,
                truth_path + ": no celestial coordinates, so the beam of " + lr_path + " cannot be turned into pixels");
  c.beam_lr = beam->fwhm_arcsec() / truth.pixel_arcsec;
  if (c.beam_hr <= 0) c.beam_hr = kUsualBeam;  // as in degraded_case
  c.noise = lr.image.header.get<double>("NOISE");
  return out;
}

std::vector<MapToEvaluate> set_cases(const std::string& folder, const std::string& mode, std::int64_t factor) {
  std::vector<std::string> truths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::string name = entry.path().filename().string(); name.ends_with("_truth.fits"))
      truths.push_back(name.substr(0, name.size() - 11));
  std::sort(truths.begin(), truths.end());
  std::vector<MapToEvaluate> cases;
  for (const std::string& number : truths) {
    const fs::path lr = fs::path(folder) / (number + "_" + mode + "_x" + std::to_string(factor) + ".fits");
    if (!fs::exists(lr)) continue;
    cases.push_back(paired_case(lr.string(), (fs::path(folder) / (number + "_truth.fits")).string()));
    cases.back().name = number;
  }
  if (cases.empty())
    throw Error(ExitCode::no_input,
                "No maps NN_truth.fits with NN_" + mode + "_x" + std::to_string(factor) + ".fits in " + folder);
  return cases;
}

Observation observation_of(const metrics::Case& c, double usual_beam_pixels) {
  Observation o;
  o.lr = c.lr.to(at::kDouble);
  o.sampling.factor = c.factor;
  o.sampling.beam_out = c.block_mode() ? usual_beam_pixels : c.beam_hr;
  o.sampling.beam_in = c.block_mode() ? 0 : c.beam_lr;
  // As decide() has it: a map is not better known than its numbers, and its own power tells the noise where nobody
  // does.
  if (!c.block_mode())
    o.noise = std::max({c.noise ? *c.noise : estimate_noise(o.lr), 1e-6 * o.lr.std(false).item<double>(),
                        1e-7 * o.lr.mean().abs().item<double>(), kSmallestNoise});
  return o;
}

std::vector<NamedMethod> model_methods(const std::vector<std::string>& names, Model& model,
                                       const EnhanceOptions& options) {
  const double usual = model.trained.usual_beam;
  const auto run = [&model, usual](const metrics::Case& c, const EnhanceOptions& o) {
    if (c.factor != model.factor)
      throw Error(ExitCode::usage,
                  "Model " + model.name + " upscales by " + std::to_string(model.factor) + ", the map asks for " +
                      std::to_string(c.factor),
                  "give maps whose sizes differ by that factor, or --methods without the model's");
    return enhance_map(observation_of(c, usual), at::zeros(c.lr.sizes(), at::kBool), model, o);
  };
  // The last ensemble, so that sample and mean of one map cost one.
  struct Last {
    at::Tensor lr;
    Enhanced enhanced;
    double seconds = 0;
  };
  const auto last = std::make_shared<Last>();
  const auto ensemble = [=](const metrics::Case& c) {
    if (!last->lr.defined() || !last->lr.is_same(c.lr)) {
      const double started = steady_seconds();
      last->enhanced = run(c, options);
      last->seconds = steady_seconds() - started;
      last->lr = c.lr;
    }
    return last;
  };
  // What a file would hold: float32.
  const auto written = [](const at::Tensor& map) { return map.to(at::kFloat).to(at::kDouble); };
  std::vector<NamedMethod> methods;
  for (const std::string& name : names) {
    if (name == "regression") {
      EnhanceOptions one = options;
      one.sampler = {};
      one.sampler.name = "mean";
      one.sampler.sigma_max = options.sampler.sigma_max;
      methods.push_back({name, [=](const metrics::Case& c) {
                           const double started = steady_seconds();
                           Output out;
                           out.mean = written(run(c, one).mean);
                           out.seconds = steady_seconds() - started;
                           out.evaluations = 1;
                           return out;
                         }});
    } else {
      methods.push_back({name, [=, members = options.members,
                                evaluations = diffusion::evaluations(options.sampler)](const metrics::Case& c) {
                           const auto e = ensemble(c);
                           Output out;
                           out.evaluations = evaluations;
                           if (name == "sample") {
                             out.mean = written(e->enhanced.members[0]);
                             out.seconds = e->seconds / static_cast<double>(members);
                             return out;
                           }
                           out.mean = written(e->enhanced.mean);
                           if (members > 1) out.members = written(e->enhanced.members);
                           out.sample = written(e->enhanced.members[0]);
                           out.seconds = e->seconds;
                           return out;
                         }});
    }
  }
  return methods;
}

}  // namespace cirrus::enhance
