// Batches of patches, and the model's file.
#include "enhance/patch_task.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "kernels/dropout.h"
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

void check(const PatchOptions& o, const diffusion::Denoiser& network) {
  if (o.patch % network.alignment() != 0 || o.patch > o.fields.size)
    throw Error(ExitCode::config,
                "patch = " + std::to_string(o.patch) + " must be a multiple of " + std::to_string(network.alignment()) +
                    " (the network's coarsest pixel) and at most fields.size = " + std::to_string(o.fields.size));
  if (o.fields.size % o.fields.factor != 0) throw Error(ExitCode::config, "fields.size must be a multiple of factor");
}

}  // namespace

PatchTask::PatchTask(const PatchOptions& options, device::Device& device, std::unique_ptr<diffusion::Denoiser> network)
    : options_(options), device_(device), network_(std::move(network)) {
  check(options, *network_);
  network_->after_update();
  for (const diffusion::NamedTensor& p : network_->parameters()) p.tensor.requires_grad_(true);
}

dist::ModelActivations PatchTask::activations(std::int64_t samples) const {
  return network_->activations(samples, options_.patch, options_.patch, device_.torch_device());
}

double PatchTask::batch_bytes(std::int64_t samples) const {
  const std::int64_t maps = 2 + network_->condition_maps();  // image, noise, conditions; float32
  return 4.0 * static_cast<double>(samples * maps * options_.patch * options_.patch);
}

void PatchTask::begin_step(std::int64_t step) {
  if (!pool_) pool_ = std::make_unique<FieldPool>(field_maker(), options_.pool, step, sharing_.get());
  pool_->advance_to(step);
}

void PatchTask::load(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) {
  const std::int64_t p = options_.patch, align = network_->alignment(), places = (options_.fields.size - p) / align + 1;
  const at::TensorOptions host = device_.host_options().dtype(at::kFloat);
  const at::Tensor planes = at::empty({count, 1 + network_->condition_maps(), p, p}, host),
                   scalars = at::empty({count, network_->condition_scalars()}, host),
                   samples = at::empty({count}, host.dtype(at::kLong));
  std::vector<std::uint64_t> items;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sample = static_cast<std::uint64_t>(step * batch + first + i);
    Stream stream(Address(options_.seed, Purpose::training_order, sample));
    const TrainingField& f =
        pool_->field(static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(pool_->size()))));
    const auto y = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(places))) * align;
    const auto x = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(places))) * align;
    const std::uint64_t which = options_.augment ? stream.below(8) : 0;
    planes[i].copy_(symmetry(f.planes.narrow(1, y, p).narrow(2, x, p), which));
    scalars[i].copy_(f.scalars);
    samples.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(sample);
    items.push_back(sample);
  }
  const auto on_device = [&](at::Tensor& held, const at::Tensor& given) {
    if (!held.defined() || held.sizes() != given.sizes())
      held = at::empty_like(given, given.options().device(device_.torch_device()).pinned_memory(false));
    held.copy_(given, true);
  };
  on_device(planes_, planes);
  on_device(scalars_, scalars);
  if (kernels::has_dropout_kernel(device_.torch_device()))
    on_device(samples_, samples);
  else
    samples_ = samples;
  on_device(sigma_, sigmas(step, first, count, batch));
  if (!noise_.defined() || noise_.size(0) != count) noise_ = at::empty({count, 1, p, p}, sigma_.options());
  kernels::fill_normal(noise_, {options_.seed, Purpose::training_noise, items});
}

at::Tensor PatchTask::loss(std::int64_t begin, std::int64_t count) {
  const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, count); };
  const at::Tensor planes = part(planes_);
  return network_->loss(planes.narrow(1, 0, 1), part(noise_), part(sigma_),
                        {planes.narrow(1, 1, network_->condition_maps()), part(scalars_), part(samples_)});
}

nlohmann::json PatchTask::description() const {
  const FieldOptions& f = options_.fields;
  return {{"sky", "synthetic: lognormal, cascade, advected, warped, filaments"},
          {"seed", options_.seed},
          {"patch", options_.patch},
          {"field_size", f.size},
          {"window", options_.pool.window},
          {"fields_per_step", options_.pool.fields_per_step},
          {"usual_beam", f.usual_beam},
          {"usual_share", f.usual_share},
          {"beam_error", f.beam_error},
          {"noise_error", f.noise_error},
          {"truth_noise_share", f.truth_noise_share},
          {"truth_noise", f.truth_noise},
          {"beam_in", f.beam_in},
          {"beam_out", f.beam_out},
          {"snr", f.snr}};
}

std::string PatchTask::fingerprint() const {
  nlohmann::json all = description();
  all["network"] = network_identity();
  all["factor"] = options_.fields.factor;
  return all.dump();
}

std::map<std::string, std::string> PatchTask::model_metadata(std::int64_t step, std::int64_t samples) {
  nlohmann::json training = description();
  training["steps"] = step;
  training["samples"] = samples;
  const FieldOptions& f = options_.fields;
  const nlohmann::json ranges{
      {"beams", {{"output_pixels", f.usual_beam}, {"output_range", f.beam_out}, {"input_range_lr_pixels", f.beam_in}}},
      {"noise", {{"snr", f.snr}}}};
  return metadata_of(model_card(kind(), network_config(), f.factor, transform(), training, ranges));
}

}  // namespace cirrus::enhance
