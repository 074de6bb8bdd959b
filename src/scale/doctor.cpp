// The checks of the self-test.
#include "scale/doctor.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <sys/utsname.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/errors.h"
#include "base/first_line.h"
#include "base/signals.h"
#include "base/version.h"
#include "diffusion/edm_network.h"
#include "diffusion/perturb_gains.h"
#include "diffusion/sr3_network.h"
#include "kernels/normal_noise.h"
#include "train/optimizer.h"

namespace cirrus::scale {
namespace {

using nlohmann::json;

constexpr double kTimed = 0.5;  // seconds a speed is measured for, after warming up

at::Tensor normals(at::IntArrayRef shape, std::uint64_t item) {
  return kernels::normals(shape, 1, Purpose::bootstrap, item);
}

/// rms(found - exact) / rms(exact).
double error(const at::Tensor& found, const at::Tensor& exact) {
  const at::Tensor f = found.detach().cpu().to(at::kDouble), e = exact.detach().cpu().to(at::kDouble);
  return ((f - e).square().mean().sqrt() / e.square().mean().sqrt()).item<double>();
}

/// Relative error that roundings of a type leave in sums of products.
double tolerance(at::ScalarType type) { return type == at::kFloat ? 1e-5 : type == at::kHalf ? 2e-3 : 1.5e-2; }

/// Times `work` (once for compilers and caches, then repeatedly for a while) on the device: seconds of one.
template <typename F>
double seconds_of(device::Device& device, F&& work) {
  work();
  device.end_step();
  device.synchronize();
  std::int64_t count = 1;
  while (true) {
    const double started = steady_seconds();
    for (std::int64_t i = 0; i < count; ++i) work(), device.end_step();
    device.synchronize();
    const double seconds = steady_seconds() - started;
    signals::check_interrupt();
    if (seconds > kTimed / 2) return seconds / static_cast<double>(count);
    count = static_cast<std::int64_t>(static_cast<double>(count) * std::clamp(kTimed / (seconds + 1e-6), 2.0, 100.0));
  }
}

json matmul(device::Device& device, at::ScalarType type) {
  const at::Tensor a = normals({192, 320}, 1).to(type), b = normals({320, 256}, 2).to(type);
  const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  const auto there = device.torch_device();
  const double wrong = error(at::mm(a.to(there), b.to(there)), exact);
  const std::int64_t n = there.is_cpu() ? 1024 : 8192;
  const at::Tensor large = at::ones({n, n}, at::TensorOptions(there).dtype(type));
  const double seconds = seconds_of(device, [&] { return at::mm(large, large); });
  return {{"passed", wrong < tolerance(type)},
          {"error", wrong},
          {"size", n},
          {"tflops", 2e-12 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / seconds}};
}

json convolution(device::Device& device, at::ScalarType type) {
  const auto there = device.torch_device();
  const auto run = [](const at::Tensor& x, const at::Tensor& w) {
    const at::Tensor xl = x.detach().requires_grad_(true), wl = w.detach().requires_grad_(true);
    const at::Tensor y = at::conv2d(xl, wl, {}, 1, 1);
    const auto g = torch::autograd::grad({y}, {xl, wl}, {y.detach()});
    return std::vector<at::Tensor>{y.detach(), g[0], g[1]};
  };
  const at::Tensor x = normals({2, 24, 17, 20}, 3).to(type), w = normals({32, 24, 3, 3}, 4).to(type);
  const auto exact = run(x.to(at::kDouble), w.to(at::kDouble)), found = run(x.to(there), w.to(there));
  double wrong = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) wrong = std::max(wrong, error(found[i], exact[i]));
  const c10::NoGradGuard no_grad;
  const std::int64_t n = there.is_cpu() ? 4 : 64, c = there.is_cpu() ? 64 : 128, side = 64;
  const at::TensorOptions options = at::TensorOptions(there).dtype(type);
  const at::Tensor field = at::ones({n, c, side, side}, options).contiguous(at::MemoryFormat::ChannelsLast),
                   taps = at::ones({c, c, 3, 3}, options).contiguous(at::MemoryFormat::ChannelsLast);
  const double seconds = seconds_of(device, [&] { return at::conv2d(field, taps, {}, 1, 1); });
  return {{"passed", wrong < 2 * tolerance(type)},
          {"error", wrong},
          {"tflops", 18e-12 * static_cast<double>(n * c * c * side * side) / seconds}};
}

/// Loss, norm of the gradient and change of each weight of one optimizer step.
struct Step {
  double loss = 0, norm = 0;
  std::vector<at::Tensor> changes;
};
Step train_step(diffusion::Denoiser& network, device::Device& device, at::ScalarType type) {
  const auto there = device.torch_device();
  std::vector<at::Tensor> parameters, before;
  diffusion::perturb_gains(network, 0.3);
  network.after_update();
  for (const diffusion::NamedTensor& p : network.parameters()) {
    parameters.push_back(p.tensor.requires_grad_(true));
    before.push_back(p.tensor.detach().cpu().clone());
  }
  train::OptimizerOptions options;
  train::Optimizer optimizer(options, parameters, device, type);
  const at::Tensor x0 = 0.5 * normals({4, 1, 32, 32}, 5), noise = normals({4, 1, 32, 32}, 6),
                   maps = normals({4, network.condition_maps(), 32, 32}, 7),
                   scalars = normals({4, std::max<std::int64_t>(network.condition_scalars(), 1)}, 8)
                                 .narrow(1, 0, network.condition_scalars()),
                   sigma = at::tensor({0.05f, 0.3f, 1.f, 5.f});
  optimizer.schedule(1e-3);
  const at::Tensor loss =
      network.loss(x0.to(there), noise.to(there), sigma.to(there), {maps.to(there), scalars.to(there)});
  torch::autograd::backward({optimizer.scaled(loss)}, {});
  device.end_step();
  const at::Tensor norm = optimizer.step(train::take_gradients(parameters));
  device.end_step();
  Step s{loss.item<double>(), norm.item<double>(), {}};
  for (std::size_t i = 0; i < parameters.size(); ++i) s.changes.push_back(parameters[i].detach().cpu() - before[i]);
  return s;
}

template <typename Network, typename Config>
json training(device::Device& device, const Config& config) {
  Network exact(config, 1, at::kCPU, at::kDouble), tested(config, 1, device.torch_device(), at::kFloat);
  const Step expected = train_step(exact, device::cpu(), at::kFloat), found = train_step(tested, device, at::kFloat);
  const double loss = std::abs(found.loss / expected.loss - 1), norm = std::abs(found.norm / expected.norm - 1);
  double difference = 0, change = 0;
  for (std::size_t i = 0; i < expected.changes.size(); ++i) {
    difference += (found.changes[i] - expected.changes[i]).abs().sum().item<double>();
    change += expected.changes[i].abs().sum().item<double>();
  }
  // Adam's first step moves a weight by the rate whatever its gradient: the signs of tiny ones may differ.
  const double update = difference / change;
  return {{"passed", loss < 1e-4 && norm < 1e-3 && update < 0.02},
          {"error", std::max(loss, norm)},
          {"error_of_update", update},
          {"loss", found.loss},
          {"loss_in_double_precision", expected.loss}};
}

json recording(device::Device& device) {
  at::Tensor x = at::ones({64}, at::TensorOptions(device.torch_device()).dtype(at::kFloat));
  x.mul_(2);
  const auto graph = device.capture([&] { x.add_(1); });
  if (!graph) return {{"passed", false}, {"detail", "the device says that it records steps, but recorded none"}};
  for (int i = 0; i < 3; ++i) graph->replay();
  device.synchronize();
  return {{"passed", x.sum().item<double>() == 64 * 5.0}};
}

/// Fills most of the free memory with numbers that say where they are, and reads them back.
json memory(device::Device& device) {
  const auto there = device.torch_device();
  const double available = static_cast<double>(device.memory().available),
               wanted = there.is_cpu() ? std::min(0.25 * available, 1e9) : 0.8 * available;
  const std::int64_t piece = 1 << 26;  // 256 MiB of float32
  std::vector<at::Tensor> held;
  for (double bytes = 0; bytes + 4.0 * piece <= wanted; bytes += 4.0 * piece) {
    held.push_back(at::full({piece}, static_cast<double>(held.size() + 1), at::TensorOptions(there).dtype(at::kFloat)));
    device.end_step();
    signals::check_interrupt();
  }
  bool right = true;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const auto n = static_cast<double>(i + 1);
    right = right && held[i].min().item<double>() == n && held[i].max().item<double>() == n;
  }
  return {{"passed", right}, {"bytes", static_cast<std::int64_t>(held.size()) * 4 * piece}};
}

}  // namespace

json examine(device::Device& device, const std::string& kind_index, const std::string& dtype) {
  const device::Capabilities can = device.capabilities();
  const device::MemoryStatistics m = device.memory();
  json versions = json::object(), dtypes = json::array(), checks = json::array();
  for (const auto& [what, version] : device.versions()) versions[what] = version;
  for (const at::ScalarType t : can.dtypes) dtypes.push_back(device::dtype_name(t));
  bool passed = true;
  const auto check = [&](const std::string& name, const std::function<json()>& work) {
    const double started = steady_seconds();
    json result;
    try {
      result = work();
    } catch (const std::exception& e) {
      const auto* error = dynamic_cast<const Error*>(&e);
      if (error != nullptr && error->code() == ExitCode::interrupted) throw;
      result = {{"passed", false}, {"detail", first_line(e)}};
    }
    result["name"] = name;
    result["seconds"] = steady_seconds() - started;
    passed = passed && result.at("passed").get<bool>();
    checks.push_back(result);
  };
  std::vector<at::ScalarType> tested = can.dtypes;
  if (dtype != "auto") tested = {device::resolve_dtype(dtype, device)};
  for (const at::ScalarType t : tested) {
    if (t != at::kFloat && t != at::kBFloat16 && t != at::kHalf) continue;  // storage types
    check("matmul " + device::dtype_name(t), [&] { return matmul(device, t); });
    check("convolution " + device::dtype_name(t), [&] { return convolution(device, t); });
  }
  diffusion::EdmConfig edm;
  edm.widths = {16, 32};
  check("training step edm", [&] { return training<diffusion::EdmNetwork>(device, edm); });
  diffusion::Sr3Config sr3{16, {1, 2}, 1, 1, 8, 0};
  check("training step sr3", [&] { return training<diffusion::Sr3Network>(device, sr3); });
  if (can.graph_capture) check("recorded step", [&] { return recording(device); });
  check("memory", [&] { return memory(device); });
  return {{"device", kind_index},    {"name", device.name()},
          {"memory_bytes", m.total}, {"memory_available_bytes", m.available},
          {"dtypes", dtypes},        {"versions", versions},
          {"passed", passed},        {"checks", checks}};
}

json describe_host() {
  utsname system{};
  uname(&system);
  json environment = json::object();
  for (const char* name :
       {"CUDA_VISIBLE_DEVICES", "HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID", "PT_HPU_LAZY_MODE",
        "CIRRUS_HPU_PLUGIN", "CIRRUS_MODULE_PATH", "OMP_NUM_THREADS", "SLURM_JOB_PARTITION"})
    if (const char* value = std::getenv(name)) environment[name] = value;
  return {{"cirrus", kVersion},
          {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
          {"processor", device::cpu().name()},
          {"threads", at::get_num_threads()},
          {"environment", environment}};
}

}  // namespace cirrus::scale
