// SR3's fields and noise levels.
#include "enhance/sr3_task.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/random.h"
#include "diffusion/sr3_schedule.h"
#include "enhance/sr3_image.h"

namespace cirrus::enhance {
namespace {

std::unique_ptr<diffusion::Denoiser> network_of(const Sr3Options& o, device::Device& device, at::ScalarType dtype) {
  using Weights = diffusion::Sr3Network::Weights;
  if (o.init.empty())
    return std::make_unique<diffusion::Sr3Network>(o.network, o.seed, o.sketch ? at::kMeta : device.torch_device(),
                                                   dtype, o.sketch ? Weights::unset : Weights::initial);
  Model model = load_model(find_model(o.init, o.fields.factor), device, dtype);
  if (model.kind != "sr3" || model.card.at("network_config") != o.network.to_json())
    throw Error(ExitCode::config, "Model " + model.name + " does not hold the sr3 network that is configured",
                "start from another --init, or configure its network");
  return std::move(model.network);
}

}  // namespace

Sr3Task::Sr3Task(const Sr3Options& options, device::Device& device, at::ScalarType dtype)
    : PatchTask(options, device, network_of(options, device, dtype)), options_(options) {}

FieldPool::Maker Sr3Task::field_maker() const {
  return
      [fields = options_.fields, seed = options_.seed](std::uint64_t i) { return make_image_field(fields, seed, i); };
}

at::Tensor Sr3Task::sigmas(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) const {
  return sr3_sigmas(options_.seed, step, first, count, batch);
}

nlohmann::json Sr3Task::transform() const { return {{"image", "[-1, 1] over 1.25 times the input's range"}}; }

at::Tensor sr3_sigmas(std::uint64_t seed, std::int64_t step, std::int64_t first, std::int64_t count,
                      std::int64_t batch) {
  static const diffusion::Sr3Schedule schedule;
  constexpr std::uint32_t kStep = 1, kSample = 2;  // apart from the levels of the product's task
  Stream steps(Address(seed, Purpose::training_sigma, static_cast<std::uint64_t>(step), kStep));
  const int t = 1 + static_cast<int>(steps.below(diffusion::kSr3Steps));
  at::Tensor out = at::empty({count}, at::kFloat);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sample = static_cast<std::uint64_t>(step * batch + first + i);
    const double g =
        Stream(Address(seed, Purpose::training_sigma, sample, kSample)).uniform(schedule.g(t - 1), schedule.g(t));
    out.data_ptr<float>()[i] = static_cast<float>(diffusion::sigma_of(g));
  }
  return out;
}

TrainingField make_image_field(const FieldOptions& options, std::uint64_t seed, std::uint64_t index) {
  const SimulatedField field = simulate_field(options, seed, index);
  const Prepared p = prepare_image(field.observation);
  const at::Tensor image =
      ((p.transform.forward(field.truth).to(at::kFloat) - p.base) / p.scale).clamp(-1, 1).unsqueeze(0);
  return {at::cat({image, p.maps}), p.scalars};
}

}  // namespace cirrus::enhance
