// The residual task: its network, its constants, its noise levels.
#include "enhance/training_task.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/log.h"
#include "base/random.h"

namespace cirrus::enhance {

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

namespace {

std::unique_ptr<diffusion::Denoiser> network_of(const DenoisingOptions& o, device::Device& device,
                                                at::ScalarType dtype) {
  if (o.init.empty()) return std::make_unique<diffusion::EdmNetwork>(o.network, o.seed, device.torch_device(), dtype);
  Model model = load_model(find_model(o.init, o.fields.factor), device, dtype);
  if (model.kind != "edm")
    throw Error(ExitCode::config, "Model " + model.name + " holds an " + model.kind + " network, not an edm one",
                "start from another --init, or set network.kind = \"" + model.kind + "\"");
  return std::move(model.network);
}

}  // namespace

DenoisingTask::DenoisingTask(const DenoisingOptions& options, device::Device& device, at::ScalarType dtype)
    : PatchTask(options, device, network_of(options, device, dtype)),
      options_(options),
      edm_(dynamic_cast<diffusion::EdmNetwork&>(network())) {}

FieldPool::Maker DenoisingTask::field_maker() const {
  return [fields = options_.fields, seed = options_.seed, scale = scale_](std::uint64_t i) {
    return make_training_field(fields, seed, i, scale);
  };
}

at::Tensor DenoisingTask::sigmas(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) const {
  return training_sigmas(options_, step, first, count, batch);
}

nlohmann::json DenoisingTask::state() const {
  return {{"residual_scale", scale_.to_json()}, {"band_rms", edm_.config().band_rms}};
}

void DenoisingTask::prepare(const nlohmann::json* state) {
  if (state == nullptr) {
    log::info("Measuring the residual's scale on " + std::to_string(options_.calibration_fields) + " synthetic fields");
    const Calibration c = calibrate(options_.fields, options_.seed ^ 0xCA11B8A7Eu, options_.calibration_fields);
    scale_ = c.scale;
    edm_.set_band_rms(c.band_rms);
    return;
  }
  try {
    scale_ = ResidualScale::from_json(state->at("residual_scale"));
    nlohmann::json config = edm_.config().to_json();
    config["band_rms"] = state->at("band_rms");
    edm_.set_band_rms(diffusion::EdmConfig::from_json(config).band_rms);
  } catch (const nlohmann::json::exception& e) {
    throw Error(ExitCode::bad_data, std::string("The checkpoint lacks the model's constants: ") + e.what(),
                "resume with the version of Cirrus that wrote it, or start a new run");
  }
}

nlohmann::json DenoisingTask::description() const {
  nlohmann::json all = PatchTask::description();
  all.update({{"p_mean", options_.p_mean},
              {"p_std", options_.p_std},
              {"tail_share", options_.tail_share},
              {"tail", options_.tail},
              {"calibration_fields", options_.calibration_fields}});
  return all;
}

nlohmann::json DenoisingTask::network_config() const { return edm_.config().to_json(); }

nlohmann::json DenoisingTask::network_identity() const {
  nlohmann::json config = network_config();
  config.erase("band_rms");  // measured, and kept in state()
  return config;
}

nlohmann::json DenoisingTask::transform() const { return {{"residual_scale", scale_.to_json()}}; }

}  // namespace cirrus::enhance
