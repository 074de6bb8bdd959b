// What the verbs that compute open first: the device, its number format, threads, and a model on it.
#pragma once

#include <memory>
#include <string>

#include "base/run_options.h"
#include "device/device.h"
#include "diffusion/sampler.h"
#include "dist/world.h"
#include "enhance/model.h"

namespace cirrus::app {

struct Machine {
  std::unique_ptr<device::Device> device;
  at::ScalarType dtype = at::kFloat;
  int threads = 1;
};

/// Opens what --device, --dtype and --threads say. Throws Error(unavailable), Error(usage), Error(config).
Machine open_machine(const RunOptions& run);

/// The same on each rank of a world, with the card of its local rank (device/placement.h), and tells once who computes
/// where. All ranks call it. Throws also Error(unavailable) where ranks find cards of different kinds, or the same
/// card.
Machine open_machine(const RunOptions& run, const dist::World& world);

/// Loads --model onto the machine, or the shipped model of the factor if `name` is empty. Throws Error(usage) if
/// --factor was given and is not the model's, and as enhance::load_model.
enhance::Model open_model(const std::string& name, std::int64_t factor, bool factor_given, const Machine& machine);

/// Refuses what a sampler has no use for, and one that the model was not made for. Throws Error(usage).
void check_sampler(const diffusion::SamplerOptions& sampler, const enhance::Model& model, bool steps_given);

}  // namespace cirrus::app
