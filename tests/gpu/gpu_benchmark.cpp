// Measures training and sampling on one device through the product's own loop and samplers, and prints one JSON object:
// images/s, achieved TFLOP/s and the share of the device's peak (MFU), of an `edm` base network and of the published
// SR3 workload, in float32, TF32 and bf16, eager against recorded; and losses against the CPU's, so that a fast wrong
// run is no result. tests/gpu/run.sh starts it.
#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"
#include "diffusion/edm_network.h"
#include "diffusion/perturb_gains.h"
#include "diffusion/sampler.h"
#include "diffusion/sr3_network.h"
#include "diffusion/tiling.h"
#include "kernels/normal_noise.h"
#include "train/trainer.h"

namespace {

using namespace cirrus;
using nlohmann::json;

/// Dense peaks in TFLOP/s by data sheet: float32 on the vector units, TF32, bf16.
struct Peak {
  const char* name;
  double fp32, tf32, bf16;
};
constexpr Peak kPeaks[]{{"H200", 67, 494.7, 989.4},
                        {"H100 80GB HBM3", 67, 494.7, 989.4},
                        {"H100 PCIe", 51.2, 378, 756},
                        {"A100", 19.5, 156, 312}};

at::Tensor normals(at::IntArrayRef shape, std::uint64_t item) {
  return kernels::normals(shape, 1, Purpose::bootstrap, item);
}

/// The lines of a run's train.jsonl.
std::vector<json> records_in(const std::filesystem::path& run) {
  std::vector<json> all;
  std::istringstream text(read_text(run / "train.jsonl"));
  for (std::string line; std::getline(text, line);) all.push_back(json::parse(line));
  return all;
}

/// The same batch at every step: what is timed is the step, not the making of skies.
class FixedBatch : public train::Task {
public:
  FixedBatch(std::unique_ptr<diffusion::Denoiser> network, const at::Device& device, std::int64_t batch,
             std::int64_t size)
      : network_(std::move(network)) {
    x0_ = (0.5 * normals({batch, 1, size, size}, 1)).clamp(-1, 1).to(device);
    noise_ = normals({batch, 1, size, size}, 2).to(device);
    sigma_ = at::linspace(-3, 2, batch).exp().to(device);
    maps_ = normals({batch, network_->condition_maps(), size, size}, 3).to(device);
    scalars_ = at::zeros({batch, network_->condition_scalars()}).to(device);
    samples_ = at::arange(batch).to(device);
    for (const diffusion::NamedTensor& p : network_->parameters()) p.tensor.requires_grad_(true);
  }
  std::vector<dist::Unit> units() override { return network_->units(); }
  void run_units_on(dist::UnitRunner* runner) override { network_->run_units_on(runner); }
  std::vector<std::string> unit_rows() override { return network_->unit_rows(); }
  void begin_step(std::int64_t) override {}
  void load(std::int64_t, std::int64_t, std::int64_t, std::int64_t) override {}
  at::Tensor loss(std::int64_t begin, std::int64_t count) override {
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, count); };
    return network_->loss(part(x0_), part(noise_), part(sigma_), {part(maps_), part(scalars_), part(samples_)});
  }
  void after_update() override { network_->weights_changed(); }
  std::map<std::string, std::string> model_metadata(std::int64_t, std::int64_t) override { return {}; }
  std::string fingerprint() const override { return "fixed batch"; }

private:
  std::unique_ptr<diffusion::Denoiser> network_;
  at::Tensor x0_, noise_, sigma_, maps_, scalars_, samples_;
};

struct Workload {
  std::string name;
  std::int64_t batch, size;
  bool sr3;
  diffusion::EdmConfig edm{};
  diffusion::Sr3Config sr3_config{};
  std::unique_ptr<diffusion::Denoiser> network(const at::Device& device, at::ScalarType type) const {
    std::unique_ptr<diffusion::Denoiser> made;
    if (sr3)
      made = std::make_unique<diffusion::Sr3Network>(sr3_config, 0, device, type);
    else
      made = std::make_unique<diffusion::EdmNetwork>(edm, 0, device, type);
    diffusion::perturb_gains(*made, 0.1);
    made->after_update();
    return made;
  }
};

/// A device that records nothing.
struct Unrecorded : device::Device {
  explicit Unrecorded(device::Device& device) : inner(device) {}
  at::Device torch_device() const override { return inner.torch_device(); }
  std::string name() const override { return inner.name(); }
  device::Capabilities capabilities() const override { return inner.capabilities(); }
  device::MemoryStatistics memory() const override { return inner.memory(); }
  void seed(std::uint64_t s) override { inner.seed(s); }
  void synchronize() override { inner.synchronize(); }
  void end_step() override { inner.end_step(); }
  std::unique_ptr<device::Event> record_event() override { return inner.record_event(); }
  device::Device& inner;
};

struct Precision {
  std::string name;
  at::ScalarType type;
  bool tf32;
};

class Benchmark {
public:
  Benchmark(device::Device& device, double seconds, std::filesystem::path folder)
      : device_(device), seconds_(seconds), folder_(std::move(folder)) {}

  /// images/s, TFLOP/s and MFU of training steps; the losses of the first ones.
  json train(const Workload& w, const Precision& p, bool capture) {
    at::globalContext().setAllowTF32CuBLAS(p.tf32);
    at::globalContext().setAllowTF32CuDNN(p.tf32);
    std::unique_ptr<diffusion::Denoiser> network = w.network(device_.torch_device(), p.type);
    const double flops = 3 * network->flops(w.size, w.size);
    FixedBatch task(std::move(network), device_.torch_device(), w.batch, w.size);
    train::TrainerOptions o;
    o.batch = w.batch;
    o.record_steps = 10;
    o.checkpoint_minutes = 1e9;
    o.capture = capture;
    o.compute = p.type;
    o.optimizer.learning_rate = 1e-4;
    if (w.sr3) {
      o.optimizer.clip = 0;
      o.optimizer.average = false;
    }
    o.steps = 1'000'000;
    o.time_limit = seconds_;
    o.keep = 1;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    (void)train::run_training(task, device_, {}, o, folder_, false);
    const std::vector<json> records = records_in(folder_);
    std::filesystem::remove_all(folder_);
    json result{{"work", "train"}, {"workload", w.name}, {"dtype", p.name}, {"recorded", capture}, {"batch", w.batch}};
    if (records.size() < 3) return result.update({{"detail", "fewer than 30 steps in the time given"}}), result;
    std::vector<double> rates;  // the first records hold warm-up and recording
    for (std::size_t i = 2; i < records.size(); ++i) rates.push_back(records[i].at("samples_per_s"));
    std::sort(rates.begin(), rates.end());
    const double rate = rates[rates.size() / 2];
    add_speed(result, rate, flops, p);
    result["steps"] = records.back().at("step");
    result["loss_first"] = records.front().at("loss");
    result["loss_last"] = records.back().at("loss");
    result["peak_memory_bytes"] = device_.memory().peak_used;
    return result;
  }

  /// Network evaluations of fields a second.
  json sample(const Workload& w, const Precision& p, bool capture, std::int64_t field, std::int64_t members) {
    const c10::NoGradGuard no_grad;
    at::globalContext().setAllowTF32CuBLAS(p.tf32);
    at::globalContext().setAllowTF32CuDNN(p.tf32);
    const std::unique_ptr<diffusion::Denoiser> network = w.network(device_.torch_device(), p.type);
    network->prepare_for_sampling(p.type);
    Unrecorded eager(device_);
    const auto axis = [&] { return diffusion::plan_axis(field, 0, -1, false, 0, network->alignment()); };
    diffusion::TiledDenoiser denoise(*network, capture ? device_ : eager,
                                     normals({network->condition_maps(), field, field}, 4).to(device_.torch_device()),
                                     at::zeros({network->condition_scalars()}).to(device_.torch_device()), axis(),
                                     axis(), members);
    diffusion::SamplerOptions options;
    options.steps = 8;
    const auto noise = [&](std::uint32_t) { return normals({members, 1, field, field}, 5).to(device_.torch_device()); };
    (void)diffusion::sample(options, std::ref(denoise), noise);  // warms up and records
    device_.synchronize();
    const double started = steady_seconds();
    std::int64_t count = 0;
    at::Tensor x;
    while (steady_seconds() - started < seconds_ / 3) {
      x = diffusion::sample(options, std::ref(denoise), noise);
      count += options.steps * members;
      device_.synchronize();
    }
    json result{{"work", "sample"}, {"workload", w.name}, {"dtype", p.name}, {"recorded", capture}, {"field", field}};
    add_speed(result, static_cast<double>(count) / (steady_seconds() - started), network->flops(field, field), p);
    result["mean_square"] = x.square().mean().item<double>();
    return result;
  }

private:
  void add_speed(json& result, double rate, double flops, const Precision& p) const {
    result["images_per_s"] = rate;
    result["tflops"] = rate * flops * 1e-12;
    result["mfu"] = nullptr;
    for (const Peak& peak : kPeaks)
      if (device_.name().find(peak.name) != std::string::npos) {
        const double of = p.type == at::kBFloat16 ? peak.bf16 : p.tf32 ? peak.tf32 : peak.fp32;
        result["mfu"] = rate * flops * 1e-12 / of;
        result["peak_tflops"] = of;
        break;
      }
  }

  device::Device& device_;
  double seconds_;
  std::filesystem::path folder_;
};

/// Losses of the first steps on the device and on the CPU, of small networks in float32: the largest relative
/// difference.
double gate(device::Device& device, const Workload& small, const std::filesystem::path& folder) {
  const auto losses = [&](device::Device& d) {
    FixedBatch task(small.network(d.torch_device(), at::kFloat), d.torch_device(), small.batch, small.size);
    train::TrainerOptions o;
    o.batch = small.batch;
    o.steps = 12;
    o.record_steps = 1;
    o.checkpoint_minutes = 1e9;
    o.optimizer.learning_rate = 1e-3;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    (void)train::run_training(task, d, {}, o, folder, false);
    std::vector<double> out;
    for (const json& record : records_in(folder)) out.push_back(record.at("loss"));
    return out;
  };
  const std::vector<double> found = losses(device), expected = losses(device::cpu());
  double worst = found.size() == expected.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
    worst = std::max(worst, std::abs(found[i] / expected[i] - 1));
  return worst;
}

int run(const std::string& name, double seconds, bool small) {
  const std::unique_ptr<device::Device> device = device::open_device(name);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "cirrus-gpu-benchmark";
  Workload base{"edm-base", 64, 64, false}, sr3{"sr3-64-256", 4, 256, true}, edm4{"edm-base batch 4", 4, 64, false};
  base.edm.widths = edm4.edm.widths = {128, 256, 384};
  base.edm.blocks = edm4.edm.blocks = 2;
  base.edm.embedding = edm4.edm.embedding = 256;
  Workload little_edm{"edm", 4, 32, false}, little_sr3{"sr3", 4, 32, true};
  little_edm.edm.widths = {16, 32};
  little_sr3.sr3_config = {16, {1, 2}, 1, 1, 8, 0.2};
  if (small) {  // to see on any machine that the program works
    base.edm.widths = edm4.edm.widths = {16, 32};
    base.batch = 4;
    base.size = edm4.size = sr3.size = 32;
    sr3.sr3_config = little_sr3.sr3_config;
  }
  const auto can = [&](at::ScalarType t) {
    const auto types = device->capabilities().dtypes;
    return std::find(types.begin(), types.end(), t) != types.end();
  };
  std::vector<Precision> precisions{{"fp32", at::kFloat, false}};
  if (can(at::kBFloat16)) {
    precisions.push_back({"tf32", at::kFloat, true});
    precisions.push_back({"bf16", at::kBFloat16, false});
  }
  json report{{"device", device->name()}, {"time", utc_now()}, {"results", json::array()}};
  report["gate"] = {{"edm", gate(*device, little_edm, folder)}, {"sr3", gate(*device, little_sr3, folder)}};
  const bool right = report["gate"]["edm"] < 1e-3 && report["gate"]["sr3"] < 1e-3;
  report["gate"]["passed"] = right;
  Benchmark benchmark(*device, seconds, folder);
  const auto add = [&](const json& result) {
    std::cerr << result.dump() << std::endl;
    report["results"].push_back(result);
  };
  const bool records = device->capabilities().graph_capture;
  for (const Precision& p : precisions)
    for (const Workload& w : {base, edm4, sr3})
      for (const bool capture : {false, true}) {
        if (capture && !records) continue;
        add(benchmark.train(w, p, capture));
      }
  for (const Precision& p : precisions)
    for (const bool capture : {false, true}) {
      if (capture && !records) continue;
      add(benchmark.sample(base, p, capture, small ? 64 : 512, 4));
    }
  std::cout << report.dump(1) << std::endl;
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string name = "cuda";
  double seconds = 10;
  bool small = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--device" && i + 1 < argc)
      name = argv[++i];
    else if (word == "--seconds" && i + 1 < argc)
      seconds = std::atof(argv[++i]);
    else if (word == "--small")
      small = true;
    else
      return std::cerr << "usage: gpu_benchmark [--device NAME] [--seconds S] [--small]\n", 64;
  }
  try {
    return run(name, seconds, small);
  } catch (const Error& e) {
    std::cerr << "gpu_benchmark: " << e.what() << '\n';
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    std::cerr << "gpu_benchmark: " << e.what() << '\n';
    return 70;
  }
}
