// hpu_probe SCENARIO...: does small pieces of work on device hpu and prints, as "scenario.key value" lines, what the
// fake plug-in counted. An error goes to stderr and its code is the exit code; running out of memory is code 70.
#include <c10/core/GradMode.h>
#include <dlfcn.h>

#include <cstdint>
#include <functional>
#include <iostream>
#include <map>

#include "base/errors.h"
#include "device/device.h"
#include "device/hpu/adamw.h"
#include "device/memory_error.h"
#include "kernels/attention.h"

namespace {

using namespace cirrus;

std::int64_t count(const char* what) {
  static const auto function = reinterpret_cast<std::int64_t (*)(const char*)>(dlsym(RTLD_DEFAULT, "fake_hpu_count"));
  return function(what);
}
void call(const char* function) { reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, function))(); }

std::string scenario;
template <class T>
void say(const std::string& key, const T& value) {
  std::cout << scenario << "." << key << " " << value << "\n";
}

/// One convolution layer and its loss: the smallest thing that is trained.
class Layer {
public:
  explicit Layer(device::Device& device) : device_(device) {
    const auto on_device = [&](const at::Tensor& t) { return t.to(device.torch_device()); };
    x_ = on_device(at::arange(2 * 3 * 8 * 8, at::kFloat).view({2, 3, 8, 8}).sin());
    w_ = on_device(at::arange(4 * 3 * 3 * 3, at::kFloat).view({4, 3, 3, 3}).cos()).requires_grad_(true);
  }
  at::Tensor forward() { return at::silu(at::conv2d(x_, w_, {}, 1, 1)).square().mean(); }
  void update(const at::Tensor& rate) {
    const at::Tensor gradient = w_.grad();
    at::Tensor w = w_.detach();
    w.sub_(gradient * rate);
    w_.mutable_grad().reset();
  }
  at::Tensor weights() const { return w_.detach(); }

private:
  device::Device& device_;
  at::Tensor x_, w_;
};

/// Five training steps with `work` inside each, after the loss.
void train(device::Device& device, const std::function<void(Layer&, const at::Tensor& loss, int step)>& work) {
  Layer layer(device);
  const at::Tensor rate = at::full({}, 0.1).to(device.torch_device());
  device.synchronize();
  call("fake_hpu_reset");
  std::int64_t in_steps = 0, late_compiles = 0;
  for (int step = 0; step < 5; ++step) {
    call("fake_hpu_begin_step");
    const std::int64_t compiles = count("compiles");
    const at::Tensor loss = layer.forward();
    loss.backward();
    device.end_step();
    work(layer, loss, step);
    layer.update(rate);
    device.end_step();
    in_steps += count("host_reads_in_step");
    if (step > 0) late_compiles += count("compiles") - compiles;
  }
  for (const char* key : {"flushes", "forced_flushes", "compiles", "fallbacks", "graphs", "queued"})
    say(key, count(key));
  say("host_reads", in_steps);
  say("late_compiles", late_compiles);
}

const std::map<std::string, std::function<void(device::Device&)>> kScenarios = {
    {"name", [](device::Device& d) { say("is", d.name()); }},
    {"dtypes",
     [](device::Device& d) {
       for (const at::ScalarType t : d.capabilities().dtypes) say(device::dtype_name(t), 1);
       say("deferred", d.capabilities().deferred_execution);
     }},
    {"memory", [](device::Device& d) { say("total", d.memory().total); }},
    {"versions",
     [](device::Device& d) {
       for (const auto& [name, version] : d.versions()) say(name, version);
     }},
    {"environment",
     [](device::Device&) {
       for (const char* name : {"PT_HPU_LAZY_MODE", "WORLD_SIZE", "RANK", "LOCAL_RANK", "ID", "HLS_MODULE_ID"}) {
         const char* value = std::getenv(name);
         say(name, value == nullptr ? "unset" : value);
       }
     }},
    {"steps", [](device::Device& d) { train(d, [](Layer&, const at::Tensor&, int) {}); }},
    {"item", [](device::Device& d) { train(d, [](Layer&, const at::Tensor& loss, int) { loss.item<float>(); }); }},
    {"shapes",
     [](device::Device& d) {
       train(d, [](Layer& layer, const at::Tensor&, int step) {
         at::masked_select(layer.weights(), layer.weights() > 0.3 * step).sum();
       });
     }},
    {"numbers",
     [](device::Device& d) {
       train(d, [](Layer& layer, const at::Tensor&, int step) { layer.weights().mul_(1 - 0.01 * step); });
     }},
    {"host_operator",
     [](device::Device& d) {
       train(d, [](Layer& layer, const at::Tensor&, int) { at::special_i0(layer.weights()); });
       say("special_i0", count("aten::special_i0"));
     }},
    {"double",
     [](device::Device& d) {
       const at::Tensor x = at::full({3}, 1 + 1e-12, at::kDouble).to(d.torch_device());
       say("excess", (x.to(at::kCPU) - 1).abs().max().item<double>());
       say("tensors", count("double_tensors"));
     }},
    {"float8", [](device::Device& d) { at::ones({3}, at::TensorOptions(d.torch_device())).to(at::kFloat8_e4m3fn); }},
    {"full",
     [](device::Device& d) {
       std::vector<at::Tensor> held;
       for (int i = 0; i < 64; ++i) held.push_back(at::empty({1 << 20}, at::TensorOptions(d.torch_device())));
     }},
    {"attention",
     [](device::Device& d) {
       // Twice: compiled once.
       at::Tensor q = at::arange(2 * 6 * 4, at::kDouble).sin().view({1, 2, 6, 4}).requires_grad_(true);
       at::Tensor k = q.detach().cos().requires_grad_(true), v = (3 * q.detach()).sin().requires_grad_(true);
       const at::Tensor g = (5 * q.detach()).cos();
       const at::Tensor expected = kernels::reference::attention(q, k, v);
       expected.backward(g);
       const auto on_device = [&](const at::Tensor& t) { return t.detach().to(at::kFloat).to(d.torch_device()); };
       double worst = 0;
       const auto compare = [&](const at::Tensor& tested, const at::Tensor& reference) {
         const at::Tensor host = tested.detach().to(at::kCPU).to(at::kDouble);
         worst = std::max(worst, (host - reference.detach()).abs().max().item<double>());
       };
       const at::Tensor dq = on_device(q).requires_grad_(true), dk = on_device(k).requires_grad_(true),
                        dv = on_device(v).requires_grad_(true), dg = on_device(g);
       d.end_step();
       call("fake_hpu_reset");
       for (int i = 0; i < 2; ++i) {
         for (const at::Tensor& leaf : {dq, dk, dv}) leaf.mutable_grad().reset();
         const at::Tensor out = kernels::attention(dq, dk, dv);
         out.backward(dg);
         d.end_step();
         if (i == 0) compare(out, expected);
       }
       say("forward", count("hpu::sdpa_recomp_fwd"));
       say("backward", count("hpu::sdpa_recomp_bwd"));
       say("operations", count("operations"));
       {
         const c10::NoGradGuard no_grad;
         compare(kernels::attention(dq, dk, dv), expected);
       }
       say("sampling", count("hpu::sdpa_recomp_fwd"));
       say("fallbacks", count("fallbacks"));
       compare(dq.grad(), q.grad());
       compare(dk.grad(), k.grad());
       compare(dv.grad(), v.grad());
       say("difference", worst);
     }},
    {"adamw",
     [](device::Device& d) {
       // Against ATen's fused AdamW in double: ten steps with decay, the rate changing from step to step.
       device::AdamWUpdate u;
       std::vector<at::Tensor> w, g, m, v, steps;
       for (int i = 0; i < 3; ++i) {
         w.push_back(at::arange(6 + i, at::kDouble).sin());
         g.push_back(at::arange(6 + i, at::kDouble).cos());
         m.push_back(at::zeros_like(w.back()));
         v.push_back(at::zeros_like(w.back()));
         steps.push_back(at::zeros({}, at::kFloat));
         for (auto* list : {&u.weights, &u.gradients, &u.first, &u.second}) list->emplace_back();
         u.weights.back() = w.back().to(at::kFloat).to(d.torch_device());
         u.gradients.back() = g.back().to(at::kFloat).to(d.torch_device());
         u.first.back() = at::zeros_like(u.weights.back());
         u.second.back() = at::zeros_like(u.weights.back());
       }
       u.weight_decay = 0.1;
       bool done = true;
       const auto number = [&](double x) { return at::full({}, x).to(at::kFloat).to(d.torch_device()); };
       d.end_step();
       call("fake_hpu_reset");
       for (int t = 1; t <= 10; ++t) {
         const double rate = 0.01 * t;
         at::_foreach_add_(steps, 1);
         at::_fused_adamw_(w, g, m, v, {}, steps, rate, u.beta1, u.beta2, u.weight_decay, u.epsilon, false, false);
         u.rate = number(rate);
         u.correction1 = number(1 - std::pow(u.beta1, t));
         u.correction2 = number(1 - std::pow(u.beta2, t));
         done = done && device::hpu::fused_adamw(u);
         d.end_step();
       }
       say("fused", done);
       say("compiles", count("compiles"));
       say("fallbacks", count("fallbacks"));
       double worst = 0;
       for (std::size_t i = 0; i < w.size(); ++i)
         worst = std::max(worst, (u.weights[i].to(at::kCPU).to(at::kDouble) - w[i]).abs().max().item<double>());
       say("difference", worst);
     }},
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto device = device::open_device("hpu");
    for (int i = 1; i < argc; ++i) kScenarios.at(scenario = argv[i])(*device);
  } catch (const Error& e) {
    std::cerr << e.what() << "\n";
    return static_cast<int>(e.code());
  } catch (const c10::Error& e) {
    const bool full = device::is_out_of_memory(e);
    std::cerr << (full ? "out of memory: " : "") << e.what_without_backtrace() << "\n";
    return full ? static_cast<int>(ExitCode::internal) : 1;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
