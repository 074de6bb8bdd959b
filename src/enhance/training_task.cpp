// Batches of patches and noise levels for the network.
#include "enhance/training_task.h"

#include "base/errors.h"
#include "base/log.h"
#include "kernels/normal_noise.h"

namespace cirrus::enhance {
namespace {

/// One of the eight symmetries of the square applied to [C, P, P].
at::Tensor symmetry(at::Tensor x, std::uint64_t which) {
  if (which & 1u) x = x.flip(1);
  if (which & 2u) x = x.flip(2);
  if (which & 4u) x = x.transpose(1, 2);
  return x;
}

void check(const DenoisingOptions& o, const diffusion::EdmNetwork& network) {
  if (o.patch % network.alignment() != 0 || o.patch > o.fields.size)
    throw Error(ExitCode::config,
                "patch = " + std::to_string(o.patch) + " must be a multiple of " + std::to_string(network.alignment()) +
                    " (the network's coarsest pixel) and at most fields.size = " + std::to_string(o.fields.size));
  if (o.fields.size % o.fields.factor != 0) throw Error(ExitCode::config, "fields.size must be a multiple of factor");
}

}  // namespace

at::Tensor training_sigmas(const DenoisingOptions& o, std::int64_t step, std::int64_t first, std::int64_t count,
                           std::int64_t batch) {
  at::Tensor out = at::empty({count}, at::kFloat);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sample = static_cast<std::uint64_t>(step * batch + first + i);
    const double u =
        (static_cast<double>(first + i) + Stream(Address(o.seed, Purpose::training_sigma, sample)).uniform()) /
        static_cast<double>(batch);
    double log_sigma;
    if (u < o.tail_share) {
      log_sigma = std::log(o.tail[0]) + u / o.tail_share * std::log(o.tail[1] / o.tail[0]);
    } else {
      const double v = std::clamp((u - o.tail_share) / (1 - o.tail_share), 1e-6, 1 - 1e-6);
      log_sigma = o.p_mean + o.p_std * at::special_ndtri(at::scalar_tensor(v, at::kDouble)).item<double>();
    }
    out[i] = std::exp(log_sigma);
  }
  return out;
}

DenoisingTask::DenoisingTask(const DenoisingOptions& options, const at::Device& device, at::ScalarType dtype)
    : options_(options), device_(device) {
  if (options.init.empty()) {
    network_ = std::make_unique<diffusion::EdmNetwork>(options.network, options.seed, device, dtype);
  } else {
    network_ = load_model(find_model(options.init, options.fields.factor), device, dtype).network;
  }
  check(options, *network_);
  network_->after_update();
  for (const diffusion::NamedTensor& p : network_->parameters()) p.tensor.requires_grad_(true);
}

nlohmann::json DenoisingTask::state() const {
  return {{"residual_scale", scale_.to_json()}, {"band_rms", network_->config().band_rms}};
}

void DenoisingTask::prepare(const nlohmann::json* state) {
  if (state == nullptr) {
    log::info("Measuring the residual's scale on " + std::to_string(options_.calibration_fields) + " synthetic fields");
    const Calibration c = calibrate(options_.fields, options_.seed ^ 0xCA11B8A7Eu, options_.calibration_fields);
    scale_ = c.scale;
    network_->set_band_rms(c.band_rms);
    return;
  }
  try {
    scale_ = ResidualScale::from_json(state->at("residual_scale"));
    nlohmann::json config = network_->config().to_json();
    config["band_rms"] = state->at("band_rms");
    network_->set_band_rms(diffusion::EdmConfig::from_json(config).band_rms);
  } catch (const nlohmann::json::exception& e) {
    throw Error(ExitCode::bad_data, std::string("The checkpoint lacks the model's constants: ") + e.what(),
                "resume with the version of Cirrus that wrote it, or start a new run");
  }
}

std::vector<std::pair<std::string, at::Tensor>> DenoisingTask::parameters() {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const diffusion::NamedTensor& p : network_->parameters()) out.emplace_back(p.name, p.tensor);
  return out;
}

void DenoisingTask::begin_step(std::int64_t step) {
  if (!pool_) pool_ = std::make_unique<FieldPool>(options_.fields, options_.pool, options_.seed, scale_, step);
  pool_->advance_to(step);
}

at::Tensor DenoisingTask::loss(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) {
  const std::int64_t p = options_.patch, align = network_->alignment(), places = (options_.fields.size - p) / align + 1;
  at::Tensor planes = at::empty({count, 1 + kConditionMaps, p, p}, at::kFloat),
             scalars = at::empty({count, kConditionScalars}, at::kFloat);
  std::vector<std::uint64_t> items;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sample = static_cast<std::uint64_t>(step * batch + first + i);
    Stream stream(Address(options_.seed, Purpose::training_order, sample));
    const TrainingField& f =
        pool_->field(static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(pool_->size()))));
    const auto y = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(places))) * align;
    const auto x = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(places))) * align;
    planes[i].copy_(symmetry(f.planes.narrow(1, y, p).narrow(2, x, p), stream.below(8)));
    scalars[i].copy_(f.scalars);
    items.push_back(sample);
  }
  const at::Tensor noise = kernels::normal_noise({count, 1, p, p}, {options_.seed, Purpose::training_noise, items});
  planes = planes.to(device_);
  const diffusion::Conditions conditions{planes.narrow(1, 1, kConditionMaps), scalars.to(device_)};
  return network_->loss(planes.narrow(1, 0, 1), noise.to(device_),
                        training_sigmas(options_, step, first, count, batch).to(device_), conditions);
}

nlohmann::json DenoisingTask::description() const {
  const FieldOptions& f = options_.fields;
  return {{"sky", "synthetic: lognormal, cascade, advected, warped, filaments"},
          {"seed", options_.seed},
          {"patch", options_.patch},
          {"p_mean", options_.p_mean},
          {"p_std", options_.p_std},
          {"tail_share", options_.tail_share},
          {"tail", options_.tail},
          {"field_size", f.size},
          {"window", options_.pool.window},
          {"fields_per_step", options_.pool.fields_per_step},
          {"usual_beam", f.usual_beam},
          {"usual_share", f.usual_share},
          {"beam_error", f.beam_error},
          {"noise_error", f.noise_error},
          {"truth_noise_share", f.truth_noise_share},
          {"truth_noise", f.truth_noise},
          {"calibration_fields", options_.calibration_fields},
          {"beam_in", f.beam_in},
          {"beam_out", f.beam_out},
          {"snr", f.snr}};
}

std::string DenoisingTask::fingerprint() const {
  nlohmann::json all = description();
  all["network"] = network_->config().to_json();
  all["network"].erase("band_rms");  // measured, and kept in state()
  all["factor"] = options_.fields.factor;
  return all.dump();
}

void DenoisingTask::save_model(const std::string& path, const std::vector<at::Tensor>& averaged, std::int64_t step,
                               std::int64_t samples) {
  nlohmann::json training = description();
  training["steps"] = step;
  training["samples"] = samples;
  const FieldOptions& f = options_.fields;
  const nlohmann::json ranges{
      {"beams", {{"output_pixels", f.usual_beam}, {"output_range", f.beam_out}, {"input_range_lr_pixels", f.beam_in}}},
      {"noise", {{"snr", f.snr}}}};
  std::vector<std::pair<std::string, at::Tensor>> weights;
  const auto names = network_->parameters();
  for (std::size_t i = 0; i < names.size(); ++i) weights.emplace_back(names[i].name, averaged[i]);
  enhance::save_model(path, weights, model_card(network_->config(), f.factor, scale_, training, ranges));
}

}  // namespace cirrus::enhance
