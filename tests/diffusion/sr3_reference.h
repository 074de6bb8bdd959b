// SR3's network built a second time, from PyTorch's own modules (torch::nn) after the published description, and not
// from Cirrus' code: the oracle of its forward pass. Layer names are those of Cirrus' files, so that weights can be
// copied.
#pragma once

#include <torch/nn/functional/normalization.h>
#include <torch/nn/functional/upsampling.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <map>

namespace cirrus::test {

class Sr3Reference : public torch::nn::Module {
public:
  struct Shape {
    std::int64_t inner;
    std::vector<std::int64_t> multipliers;
    std::int64_t blocks, attention_level, groups;
  };
  explicit Sr3Reference(const Shape& s) : s_(s) {
    linear("embed.first", s.inner, 4 * s.inner);
    linear("embed.second", 4 * s.inner, s.inner);
    convolution("head", 2, s.inner, 3);
    std::vector<std::int64_t> features{s.inner};
    std::int64_t width = s.inner;
    const auto levels = static_cast<std::int64_t>(s.multipliers.size());
    for (std::int64_t l = 0; l < levels; ++l) {
      for (std::int64_t b = 0; b < s.blocks; ++b) {
        block(name("down", l, b), width, channels(l), l == s.attention_level);
        features.push_back(width = channels(l));
      }
      if (l + 1 < levels) {
        convolution("down." + std::to_string(l) + ".shrink", width, width, 3, 2);
        features.push_back(width);
      }
    }
    block("middle.0", width, width, true);
    block("middle.1", width, width, false);
    for (std::int64_t l = levels - 1; l >= 0; --l) {
      for (std::int64_t b = 0; b <= s.blocks; ++b) {
        block(name("up", l, b), width + features.back(), channels(l), l == s.attention_level);
        features.pop_back();
        width = channels(l);
      }
      if (l > 0) convolution("up." + std::to_string(l) + ".grow", width, width, 3);
    }
    norm("tail.norm", width);
    convolution("tail", width, 1, 3);
  }

  /// eps(cat(condition, noisy), noise level g).
  at::Tensor forward(const at::Tensor& condition, const at::Tensor& noisy, const at::Tensor& g) {
    const std::int64_t count = s_.inner / 2;
    const at::Tensor step = at::arange(count, at::kFloat) / static_cast<double>(count);
    const at::Tensor encoding = g.unsqueeze(1) * at::exp(-std::log(1e4) * step.unsqueeze(0));
    const at::Tensor t = linears_.at("embed.second")(
        swish(linears_.at("embed.first")(at::cat({at::sin(encoding), at::cos(encoding)}, -1))));
    at::Tensor x = convolutions_.at("head")(at::cat({condition, noisy}, 1));
    std::vector<at::Tensor> features{x};
    const auto levels = static_cast<std::int64_t>(s_.multipliers.size());
    for (std::int64_t l = 0; l < levels; ++l) {
      for (std::int64_t b = 0; b < s_.blocks; ++b) features.push_back(x = run(name("down", l, b), x, t));
      if (l + 1 < levels) features.push_back(x = convolutions_.at("down." + std::to_string(l) + ".shrink")(x));
    }
    x = run("middle.1", run("middle.0", x, t), t);
    for (std::int64_t l = levels - 1; l >= 0; --l) {
      for (std::int64_t b = 0; b <= s_.blocks; ++b) {
        x = run(name("up", l, b), at::cat({x, features.back()}, 1), t);
        features.pop_back();
      }
      if (l > 0) {
        const auto twice = torch::nn::functional::InterpolateFuncOptions()
                               .scale_factor(std::vector<double>{2, 2})
                               .mode(torch::kNearest);
        x = convolutions_.at("up." + std::to_string(l) + ".grow")(torch::nn::functional::interpolate(x, twice));
      }
    }
    return convolutions_.at("tail")(swish(norms_.at("tail.norm")(x)));
  }

  /// Parameters by the names of Cirrus' files.
  std::map<std::string, at::Tensor> by_name() {
    std::map<std::string, at::Tensor> out;
    const auto put = [&](const std::string& layer, const at::Tensor& weight, const at::Tensor& bias) {
      out[layer + ".weight"] = weight;
      if (bias.defined()) out[layer + ".bias"] = bias;
    };
    for (auto& [layer, m] : linears_) put(layer, m->weight, m->bias);
    for (auto& [layer, m] : convolutions_) put(layer, m->weight, m->bias);
    for (auto& [layer, m] : norms_) put(layer, m->weight, m->bias);
    return out;
  }

private:
  static at::Tensor swish(const at::Tensor& x) { return x * at::sigmoid(x); }
  static std::string name(const char* part, std::int64_t level, std::int64_t b) {
    return std::string(part) + "." + std::to_string(level) + "." + std::to_string(b);
  }
  std::int64_t channels(std::int64_t level) const { return s_.inner * s_.multipliers[static_cast<std::size_t>(level)]; }
  void linear(const std::string& layer, std::int64_t in, std::int64_t out) {
    linears_.emplace(layer, torch::nn::Linear(in, out));
  }
  void norm(const std::string& layer, std::int64_t c) {
    norms_.emplace(layer, torch::nn::GroupNorm(torch::nn::GroupNormOptions(s_.groups, c)));
  }
  void convolution(const std::string& layer, std::int64_t in, std::int64_t out, std::int64_t kernel,
                   std::int64_t stride = 1, bool bias = true) {
    convolutions_.emplace(
        layer,
        torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(bias)));
  }
  void block(const std::string& layer, std::int64_t in, std::int64_t out, bool attention) {
    linear(layer + ".embed", s_.inner, out);
    norm(layer + ".first.norm", in);
    convolution(layer + ".first", in, out, 3);
    norm(layer + ".second.norm", out);
    convolution(layer + ".second", out, out, 3);
    if (in != out) convolution(layer + ".skip", in, out, 1);
    if (!attention) return;
    norm(layer + ".attention.norm", out);
    convolution(layer + ".attention.qkv", out, 3 * out, 1, 1, false);
    convolution(layer + ".attention.out", out, out, 1);
  }
  at::Tensor run(const std::string& layer, const at::Tensor& x, const at::Tensor& t) {
    at::Tensor h = convolutions_.at(layer + ".first")(swish(norms_.at(layer + ".first.norm")(x)));
    h = h + linears_.at(layer + ".embed")(t).view({x.size(0), -1, 1, 1});
    h = convolutions_.at(layer + ".second")(swish(norms_.at(layer + ".second.norm")(h)));
    const auto skip = convolutions_.find(layer + ".skip");
    h = h + (skip == convolutions_.end() ? x : skip->second(x));
    const auto qkv = convolutions_.find(layer + ".attention.qkv");
    if (qkv == convolutions_.end()) return h;
    const std::int64_t n = h.size(0), c = h.size(1), height = h.size(2), width = h.size(3);
    const at::Tensor all = qkv->second(norms_.at(layer + ".attention.norm")(h)).view({n, 3, c, height * width});
    const at::Tensor q = all.select(1, 0), k = all.select(1, 1), v = all.select(1, 2);
    const at::Tensor weights = at::softmax(at::einsum("ncp,ncr->npr", {q, k}) / std::sqrt(static_cast<double>(c)), -1);
    const at::Tensor mixed = at::einsum("npr,ncr->ncp", {weights, v}).view({n, c, height, width});
    return h + convolutions_.at(layer + ".attention.out")(mixed);
  }

  const Shape s_;
  std::map<std::string, torch::nn::Linear> linears_;
  std::map<std::string, torch::nn::Conv2d> convolutions_;
  std::map<std::string, torch::nn::GroupNorm> norms_;
};

}  // namespace cirrus::test
