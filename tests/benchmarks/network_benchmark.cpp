// Cirrus' side of the speed comparison: loads a model and a batch, then runs what standard input asks for, so that
// compare.py can let it take turns with its peer. Commands, one a line, each answered by one line:
//   use bf16|fp32 THREADS DROPOUT   builds the network anew from the file's weights   -> FLOP of a training sample's
//   and
//                                    of a sampled field's forward pass (dropout: of sr3; 0 for equal losses)
//   forward FILE              denoise(x, sigma, conditions) of the batch, as tensor `output`           -> ok
//   train N                   N steps: forward, backward, clip, Adam, normalisation, EMA    -> wall s, processor s,
//   loss sample N                  N runs of DPM-Solver++ over the fields            -> wall s, processor s, mean
//   square convolution N, matmul N   the roofs, N repetitions                          -> wall s, processor s, FLOP
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/errors.h"
#include "diffusion/edm_network.h"
#include "diffusion/sampler.h"
#include "diffusion/sr3_network.h"
#include "diffusion/tiling.h"
#include "dist/tensor_file.h"
#include "train/optimizer.h"

namespace {

using namespace cirrus;

constexpr double kLearningRate = 1e-3;
constexpr int kSamplerSteps = 4;

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Runs `work` and prints how long it took and the value it returns.
template <typename F>
void timed(F&& work) {
  const double wall = steady_seconds(), processor = processor_seconds();
  const double value = work();
  std::cout << steady_seconds() - wall << ' ' << processor_seconds() - processor << ' ' << value << std::endl;
}

class Worker {
public:
  Worker(const std::string& model, const std::string& batch)
      : model_(dist::load_tensors(model)), card_(nlohmann::json::parse(model_.metadata.at("cirrus"))) {
    for (const auto& [name, tensor] : dist::load_tensors(batch).tensors) batch_[name] = tensor;
    if (!batch_.contains("scalars")) {  // a file holds no empty tensors
      batch_["scalars"] = at::empty({batch_.at("x0").size(0), 0});
      batch_["field_scalars"] = at::empty({0});
    }
  }

  void use(const std::string& dtype, int threads, double dropout) {
    at::set_num_threads(threads);
    dtype_ = dtype == "bf16" ? at::kBFloat16 : at::kFloat;
    const nlohmann::json& config = card_.at("network_config");
    train::OptimizerOptions options;
    if (sr3()) {
      auto c = diffusion::Sr3Config::from_json(config);
      c.dropout = dropout;
      width_ = c.inner;
      network_ = std::make_unique<diffusion::Sr3Network>(c, 0, at::kCPU, dtype_, diffusion::Sr3Network::Weights::unset);
      options.beta2 = 0.999;
      options.clip = 0;
      options.average = false;
    } else {
      const auto c = diffusion::EdmConfig::from_json(config);
      width_ = c.widths[c.widths.size() / 2];
      network_ = std::make_unique<diffusion::EdmNetwork>(c, 0, at::kCPU, dtype_);
    }
    std::vector<at::Tensor>& parameters = parameters_;
    for (const diffusion::NamedTensor& p : network_->parameters()) {
      p.tensor.copy_(model_.get(p.name, p.tensor.sizes()));
      parameters.push_back(p.tensor.requires_grad_(true));
    }
    optimizer_ = std::make_unique<train::Optimizer>(options, parameters, device::cpu(), dtype_);
    update();
    const auto flops = [&](const char* name) {
      const at::Tensor& x = batch_.at(name);
      return network_->flops(x.size(-2), x.size(-1));
    };
    std::cout << flops("x0") << ' ' << flops("field_noise") << std::endl;
  }

  void forward(const std::string& file) {
    const c10::NoGradGuard no_grad;
    network_->prepare_for_sampling(dtype_);
    dist::save_tensors(file,
                       {{"output", network_->denoise(batch_.at("x0") + sigmas() * batch_.at("noise"),
                                                     batch_.at("sigma"), conditions())}},
                       {}, true);
    update();
    std::cout << "ok" << std::endl;
  }

  double train(int steps) {
    double loss = 0;
    for (int i = 0; i < steps; ++i) {
      optimizer_->schedule(sr3() ? 1e-4 : kLearningRate);
      const at::Tensor l = network_->loss(batch_.at("x0"), batch_.at("noise"), batch_.at("sigma"), conditions());
      torch::autograd::backward({l}, {});
      optimizer_->step(train::take_gradients(parameters_));
      update();
      optimizer_->average();
      loss = l.item<double>();
    }
    return loss;
  }

  double sample(int runs) {
    const c10::NoGradGuard no_grad;
    if (!std::exchange(prepared_, true)) network_->prepare_for_sampling(dtype_);  // as a run for a map does, once
    const at::Tensor &noise = batch_.at("field_noise"), &maps = batch_.at("field_maps");
    const auto axis = [&](int d) { return diffusion::plan_axis(maps.size(d), 0, -1, false, 0, network_->alignment()); };
    diffusion::TiledDenoiser denoise(*network_, device::cpu(), maps, batch_.at("field_scalars"), axis(1), axis(2),
                                     noise.size(0));
    diffusion::SamplerOptions options;
    options.steps = kSamplerSteps;
    double mean_square = 0;
    for (int i = 0; i < runs; ++i)
      mean_square = diffusion::sample(options, std::ref(denoise), [&](std::uint32_t) { return noise; })
                        .square()
                        .mean()
                        .item<double>();
    return mean_square;
  }

  double convolution(int repetitions) {
    const c10::NoGradGuard no_grad;
    const std::int64_t c = width_, n = 16, side = 64;
    const auto make = [&](at::IntArrayRef shape) {
      return at::full(shape, 0.1, at::TensorOptions(dtype_)).contiguous(at::MemoryFormat::ChannelsLast);
    };
    const at::Tensor x = make({n, c, side, side}), w = make({c, c, 3, 3});
    for (int i = 0; i < repetitions; ++i) at::conv2d(x, w, {}, 1, 1);
    return 2. * 9 * static_cast<double>(n * side * side * c * c * repetitions);
  }

  double matmul(int repetitions) {
    const c10::NoGradGuard no_grad;
    constexpr std::int64_t n = 1024;
    const at::Tensor a = at::full({n, n}, 0.1, at::TensorOptions(dtype_));
    for (int i = 0; i < repetitions; ++i) at::mm(a, a);
    return 2. * n * n * n * repetitions;
  }

private:
  void update() {
    network_->after_update();
    prepared_ = false;
  }
  bool sr3() const { return card_.at("network") == "sr3"; }
  at::Tensor sigmas() const { return batch_.at("sigma").view({-1, 1, 1, 1}); }
  diffusion::Conditions conditions() const {
    return {batch_.at("maps"), batch_.at("scalars"), at::arange(batch_.at("x0").size(0))};
  }

  dist::TensorFile model_;
  std::vector<at::Tensor> parameters_;
  nlohmann::json card_;
  std::int64_t width_ = 64;
  bool prepared_ = false;  ///< the network, for sampling
  std::map<std::string, at::Tensor> batch_;
  at::ScalarType dtype_ = at::kFloat;
  std::unique_ptr<diffusion::Denoiser> network_;
  std::unique_ptr<train::Optimizer> optimizer_;
};

int run(const std::string& model, const std::string& batch) {
  Worker worker(model, batch);
  std::string command, word;
  int number = 0;
  double real = 0;
  std::cout.precision(9);
  while (std::cin >> command) {
    if (command == "use" && std::cin >> word >> number >> real)
      worker.use(word, number, real);
    else if (command == "forward" && std::cin >> word)
      worker.forward(word);
    else if (command == "train" && std::cin >> number)
      timed([&] { return worker.train(number); });
    else if (command == "sample" && std::cin >> number)
      timed([&] { return worker.sample(number); });
    else if (command == "convolution" && std::cin >> number)
      timed([&] { return worker.convolution(number); });
    else if (command == "matmul" && std::cin >> number)
      timed([&] { return worker.matmul(number); });
    else
      throw Error(ExitCode::usage, "Unknown command '" + command + "'");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: network_benchmark MODEL.safetensors BATCH.safetensors (commands on standard input)\n";
    return static_cast<int>(ExitCode::usage);
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::cerr << "network_benchmark: " << e.what() << '\n';
    return 70;
  }
}
