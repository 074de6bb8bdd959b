// Both networks on the CPU, and on the device that CIRRUS_TEST_DEVICE names (cuda, hpu): estimates, losses and
// gradients against the CPU with convolutions in double precision; optimizer steps, noise, checkpoints and recorded
// work.
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "diffusion/sr3_network.h"
#include "dist/checkpoint.h"
#include "kernels/dropout.h"
#include "kernels/normal_noise.h"
#include "tests/base/scratch_folder.h"
#include "tests/device/recording_device.h"
#include "tests/device/tested_devices.h"
#include "tests/diffusion/small_network.h"
#include "train/optimizer.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
using diffusion::Conditions;
using diffusion::Denoiser;

constexpr std::int64_t kSamples = 2, kHeight = 16, kWidth = 24;

std::unique_ptr<Denoiser> edm(const at::Device& device, at::ScalarType type) {
  diffusion::EdmConfig c = small_config();
  c.widths = {16, 32};
  auto network = std::make_unique<diffusion::EdmNetwork>(c, 3, device, type);
  diffusion::perturb_gains(*network, 0.5);
  network->after_update();
  return network;
}

std::unique_ptr<Denoiser> sr3(const at::Device& device, at::ScalarType type) {
  diffusion::Sr3Config c;
  c.inner = 16;
  c.multipliers = {1, 2};
  c.blocks = 1;
  c.attention_level = 1;
  c.groups = 8;
  auto network = std::make_unique<diffusion::Sr3Network>(c, 4, device, type);
  diffusion::perturb_gains(*network, 0.2);
  return network;
}

struct Kind {
  const char* name;
  std::unique_ptr<Denoiser> (*make)(const at::Device&, at::ScalarType);
};
const Kind kKinds[] = {{"edm", edm}, {"sr3", sr3}};

/// A batch as a training task loads it.
struct Batch {
  at::Tensor x0, noise, sigma;
  Conditions conditions;

  Batch(const Denoiser& network, const at::Device& device) {
    const auto on = [&](at::IntArrayRef shape, std::uint64_t seed) { return normals(shape, seed).to(device); };
    x0 = 0.5 * on({kSamples, 1, kHeight, kWidth}, 11);
    noise = on({kSamples, 1, kHeight, kWidth}, 12);
    sigma = at::tensor({0.3f, 2.f}).to(device);
    const at::Tensor samples = at::tensor({5, 1'000'003}, at::kLong);
    conditions = {on({kSamples, network.condition_maps(), kHeight, kWidth}, 13),
                  on({kSamples, network.condition_scalars()}, 14),
                  samples.to(kernels::has_dropout_kernel(device) ? device : at::Device(at::kCPU))};
  }
  at::Tensor noisy() const { return x0 + noise * sigma.view({-1, 1, 1, 1}); }
};

/// What a network makes of the batch, on the host in float64.
struct Results {
  at::Tensor estimate, loss;
  std::vector<std::pair<std::string, at::Tensor>> gradients;
};

Results results(const Kind& kind, device::Device& d, at::ScalarType type) {
  const std::unique_ptr<Denoiser> network = kind.make(d.torch_device(), type);
  const Batch batch(*network, d.torch_device());
  const auto host = [](const at::Tensor& x) { return x.detach().to(at::kCPU).to(at::kDouble); };
  Results out;
  {
    const c10::NoGradGuard no_grad;
    const at::Tensor estimate = network->denoise(batch.noisy(), batch.sigma, batch.conditions);
    d.end_step();
    BOOST_TEST((estimate.scalar_type() == at::kFloat));
    out.estimate = host(estimate);
  }
  for (const diffusion::NamedTensor& p : network->parameters()) p.tensor.requires_grad_(true);
  const at::Tensor loss = network->loss(batch.x0, batch.noise, batch.sigma, batch.conditions);
  loss.backward();
  d.end_step();
  out.loss = host(loss);
  for (const diffusion::NamedTensor& p : network->parameters())
    out.gradients.emplace_back(p.name, host(p.tensor.grad()));
  return out;
}

double rms(const at::Tensor& x) { return x.square().mean().sqrt().item<double>(); }

/// Of results relative to their rms. float32: some thirty layers, each a few roundings of 6e-8. bfloat16: as many
/// roundings of 2e-3 that add up at random. TF32 rounds products to 5e-4. Gradients pass twice as many layers, and that
/// of an absolute error changes its sign where the estimate moves past the truth.
struct Allowed {
  double values, gradients;
};
Allowed allowed(const device::Device& d, at::ScalarType type) {
  if (type != at::kFloat) return {0.03, 0.2};
  return d.capabilities().tf32 ? Allowed{0.005, 0.01} : Allowed{1e-5, 1e-4};
}

/// Weights, their average and the last norm after three updates by fixed gradients.
std::vector<at::Tensor> updated(const Kind& kind, device::Device& d) {
  const std::unique_ptr<Denoiser> network = kind.make(d.torch_device(), at::kFloat);
  std::vector<at::Tensor> parameters;
  for (const diffusion::NamedTensor& p : network->parameters()) parameters.push_back(p.tensor.requires_grad_(true));
  train::OptimizerOptions options;
  options.weight_decay = 0.1;
  options.clip = 100;
  train::Optimizer optimizer(options, parameters, d);
  at::Tensor norm;
  for (std::uint64_t step = 0; step < 3; ++step) {
    optimizer.schedule(0.01 * static_cast<double>(step + 1));
    std::uint64_t seed = 1000 * (step + 1);
    for (const at::Tensor& p : parameters) {
      // Far from zero, where a fused operator may add Adam's epsilon at another place.
      at::Tensor g = normals(p.sizes(), ++seed);
      g += g.sign();
      p.mutable_grad() = at::empty_like(p.detach()).copy_(g);  // laid out as the weights, as gradients are
    }
    norm = optimizer.step(train::take_gradients(parameters));
    network->after_update();
    optimizer.average();
    d.end_step();
  }
  std::vector<at::Tensor> out;
  for (const at::Tensor& p : parameters) out.push_back(p.detach().to(at::kCPU).to(at::kDouble));
  for (const at::Tensor& a : optimizer.averaged()) out.push_back(a.to(at::kCPU).to(at::kDouble));
  out.push_back(norm.to(at::kCPU).to(at::kDouble));
  return out;
}

/// Recorded on one state and replayed on another, the estimate of a network is the one it computes.
void check_recorded(const Kind& kind, device::Device& d) {
  const c10::NoGradGuard no_grad;
  const std::unique_ptr<Denoiser> network = kind.make(d.torch_device(), at::kFloat);
  network->prepare_for_sampling(at::kFloat);
  const Batch batch(*network, d.torch_device());
  const at::Tensor x = batch.noisy().clone(), other = (0.3 * batch.noisy()).flip(2);
  at::Tensor estimate;
  const auto work = [&] { estimate = network->denoise(x, batch.sigma, batch.conditions); };
  for (int i = 0; i < 3; ++i) work();
  d.synchronize();
  const std::unique_ptr<device::Graph> graph = d.capture(work);
  BOOST_TEST((graph != nullptr) == d.capabilities().graph_capture);
  if (!graph) return;
  at::Tensor recorded;
  for (int i = 0; i < 2; ++i) {
    x.copy_(other);
    graph->replay();
    recorded = estimate.to(at::kCPU).clone();
    x.zero_();
  }
  x.copy_(other);
  work();
  const at::Tensor expected = estimate.to(at::kCPU);
  BOOST_TEST((recorded - expected).abs().max().item<float>() <= 1e-6f * expected.abs().max().item<float>(), kind.name);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(network_contract)

BOOST_AUTO_TEST_CASE(estimates_losses_and_gradients_are_those_of_double_precision) {
  for (device::Device* d : tested_devices())
    for (const Kind& kind : kKinds) {
      const Results exact = results(kind, device::cpu(), at::kDouble);
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const std::string what = std::string(kind.name) + " in " + c10::toString(type) + " on " + d->name();
        const Results found = results(kind, *d, type);
        const Allowed limit = allowed(*d, type);
        const double estimate = rms(found.estimate - exact.estimate) / rms(exact.estimate),
                     loss = rms(found.loss - exact.loss) / rms(exact.loss);
        BOOST_TEST(estimate <= limit.values, what << ": the estimate is off by " << estimate);
        BOOST_TEST(loss <= limit.values, what << ": the loss is off by " << loss);
        double largest = 0;
        for (const auto& [name, g] : exact.gradients) largest = std::max(largest, rms(g));
        BOOST_TEST_REQUIRE(found.gradients.size() == exact.gradients.size());
        for (std::size_t i = 0; i < exact.gradients.size(); ++i) {
          // Gradients that nearly cancel are as uncertain as those they cancel from.
          const double scale = rms(exact.gradients[i].second) + 0.01 * largest;
          const double off = rms(found.gradients[i].second - exact.gradients[i].second) / scale;
          BOOST_TEST(off <= limit.gradients,
                     what << ": the gradient of " << exact.gradients[i].first << " is off by " << off);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(optimizer_steps_and_averages_are_those_of_the_cpu) {
  for (device::Device* d : tested_devices())
    for (const Kind& kind : kKinds) {
      const std::vector<at::Tensor> expected = updated(kind, device::cpu()), found = updated(kind, *d);
      BOOST_TEST_REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double off = (found[i] - expected[i]).abs().max().item<double>() /
                           expected[i].abs().max().clamp_min(0.01).item<double>();
        BOOST_TEST(off < 1e-5, kind.name << " on " << d->name() << ": tensor " << i << " is off by " << off);
      }
    }
}

BOOST_AUTO_TEST_CASE(addressed_noise_is_the_same_everywhere) {
  for (device::Device* d : tested_devices())
    for (const std::int64_t x0 : {0, 3}) {
      const kernels::NoiseWindow window{7, Purpose::sampler_noise, {1, 1ull << 40, 9}, 2, 5, x0};
      at::Tensor expected = at::empty({3, 1, 9, 14}, at::kFloat);
      kernels::reference::fill_normal(expected, window);
      const at::Tensor found = kernels::normal_noise({3, 1, 9, 14}, window, d->torch_device());
      BOOST_TEST((found.device() == d->torch_device()));
      // In float32: the logarithm and the sine of polynomials.
      BOOST_TEST((found.to(at::kCPU) - expected).abs().max().item<float>() < 5e-6f, d->name());
    }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_written_there_is_read_back_bit_for_bit) {
  for (device::Device* d : tested_devices())
    for (const Kind& kind : kKinds) {
      const c10::NoGradGuard no_grad;
      const ScratchFolder folder;
      const std::unique_ptr<Denoiser> network = kind.make(d->torch_device(), at::kFloat),
                                      other = kind.make(d->torch_device(), at::kFloat);
      dist::Checkpoint c;
      c.step = 3;
      std::vector<dist::Slice> slices;
      for (const diffusion::NamedTensor& p : network->parameters())
        slices.push_back(dist::whole_slice(p.name, p.tensor));
      dist::CheckpointWriter(folder.path(), dist::World{}, 1).save(c, slices, false);
      const auto read = dist::find_checkpoint(folder.path(), dist::World{});
      BOOST_TEST_REQUIRE(read.has_value());
      for (const diffusion::NamedTensor& p : other->parameters()) {
        p.tensor.zero_();
        p.tensor.copy_(read->read(p.name));
      }
      for (std::size_t i = 0; i < slices.size(); ++i)
        BOOST_TEST(at::equal(other->parameters()[i].tensor.to(at::kCPU), network->parameters()[i].tensor.to(at::kCPU)));
      const Batch batch(*network, d->torch_device());
      const at::Tensor a = network->denoise(batch.noisy(), batch.sigma, batch.conditions),
                       b = other->denoise(batch.noisy(), batch.sigma, batch.conditions);
      BOOST_TEST((a - b).abs().max().item<float>() <= 1e-6f * a.abs().max().item<float>());
    }
}

BOOST_AUTO_TEST_CASE(recorded_work_is_the_work) {
  std::vector<device::Device*> devices = tested_devices();
  RecordingDevice recorder;
  devices.push_back(&recorder);
  for (device::Device* d : devices)
    for (const Kind& kind : kKinds) check_recorded(kind, *d);
  BOOST_TEST(recorder.replays == 4);
}

BOOST_AUTO_TEST_SUITE_END()
