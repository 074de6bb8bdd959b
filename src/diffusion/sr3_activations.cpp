// What a training step of the SR3 network keeps, unit by unit: one entry for each tensor that a gradient is computed
// from, as the operators in kernels/ save them.
#include <algorithm>
#include <map>

#include "diffusion/sr3_network.h"
#include "diffusion/winograd_memory.h"

namespace cirrus::diffusion {

dist::ModelActivations Sr3Network::activations(std::int64_t samples, std::int64_t height, std::int64_t width,
                                               const at::Device& device) const {
  const double area = static_cast<double>(samples * height * width), e = static_cast<double>(c10::elementSize(dtype_));
  const auto levels = static_cast<std::int64_t>(config_.multipliers.size());
  const auto pixels = [&](std::int64_t level) { return area / std::pow(4.0, static_cast<double>(level)); };
  const auto scratch = [&](std::int64_t in, std::int64_t out, double p) {
    return device.is_cpu() ? winograd_memory(in, out, p) : 0;
  };
  std::map<std::string, const at::Tensor*> tensors;
  for (const NamedTensor& p : parameters_) tensors[p.name] = &p.tensor;

  dist::ModelActivations all;
  const double inner = static_cast<double>(config_.inner);
  // Condition and noisy image, the first convolution's result; the noisy image and its parts in float32.
  all.units.push_back({area * (2 * e + 4 * 2), area * inner * e, area * inner * e, 0});
  double before = inner;  // channels that come from the unit before
  for (const std::string& name : unit_names()) {
    const auto dot = name.find('.');
    const std::string where = name.substr(0, dot);
    const std::int64_t level = where == "middle" ? levels - 1 : std::stoll(name.substr(dot + 1));
    dist::Activations& a = all.units.emplace_back();
    const auto end_is = [&](const char* word) { return name.ends_with(word); };
    if (end_is("shrink") || end_is("grow")) {
      const at::Tensor& w = *tensors.at(name + ".weight");
      const double p = pixels(end_is("shrink") ? level + 1 : level - 1), out = static_cast<double>(w.size(0));
      a.output = p * out * e;
      a.working = 2 * p * out * e + scratch(w.size(1), w.size(0), p);
      if (e < 4) a.kept += static_cast<double>(w.numel()) * e;  // cast
      before = out;
      continue;
    }
    const at::Tensor& first = *tensors.at(name + ".first.weight");
    const double p = pixels(level), in = static_cast<double>(first.size(1)), out = static_cast<double>(first.size(0));
    // Normalised input, the first convolution's result, that normalised (and dropped).
    a.kept = p * e * (in + 2 * out);
    if (where == "up") {
      a.kept += p * e * in;  // the concatenation
      a.consumed = p * e * before;
    }
    before = out;
    a.output = p * out * e;
    if (tensors.contains(name + ".attention.qkv.weight"))
      a.kept += p * (6 * e * out + 4);  // the block's result, normalised; queries, keys, values; their mixture
    // Gradients of the result and of its branches; later those of the input, when the second half has been freed.
    a.working = p * e * std::max(3 * out, 2 * in - out) + scratch(first.size(1), first.size(0), p);
    if (e < 4)
      for (const char* part : {".first", ".second", ".skip", ".attention.qkv", ".attention.out"})
        if (const auto w = tensors.find(name + part + ".weight"); w != tensors.end())
          a.kept += static_cast<double>(w->second->numel()) * e;
  }
  // The last normalisation and convolution, the loss.
  all.head = {area * (inner * e + e + 3 * 4), 0, area * (2 * inner * e), 0};
  return all;
}

}  // namespace cirrus::diffusion
