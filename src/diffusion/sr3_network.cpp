// The published SR3 network: its layers in order, and the forward pass.
#include "diffusion/sr3_network.h"

#include <c10/core/GradMode.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/random.h"
#include "kernels/attention.h"
#include "kernels/convolution.h"
#include "kernels/dropout.h"
#include "kernels/group_norm.h"
#include "kernels/memory.h"
#include "kernels/normal_noise.h"

namespace cirrus::diffusion {

using Role = Sr3Parameter::Role;

/// Indices into the parameters; a layer's bias follows its weight, a norm's bias its scale. -1 where there is none.
struct Sr3Network::Block {
  std::int64_t embed = -1, first_norm = -1, first = -1, second_norm = -1, second = -1, skip = -1;
  std::int64_t attention_norm = -1, qkv = -1, out = -1;
  std::uint32_t number = 0;  ///< among all blocks: addresses its dropout
  std::size_t unit = 0;
};

struct Sr3Network::Plan {
  std::vector<Sr3Parameter> parameters;
  std::vector<std::vector<Block>> down, up;  ///< by level
  std::vector<std::int64_t> shrink, grow;    ///< the convolution after level l (down), before level l - 1 (up)
  std::vector<Block> middle;
  /// What runs in training with its weights at hand: blocks, and the convolutions between levels, in order. Number 0 is
  /// the root, all else.
  struct Range {
    std::string name;
    std::int64_t begin = 0, end = 0;  ///< parameters
  };
  std::vector<Range> units{{"root", 0, 0}};
  std::vector<std::size_t> shrink_unit, grow_unit;
  std::int64_t embed_first = -1, embed_second = -1, head = -1, tail_norm = -1, tail = -1;
  double convolution_macs = 0;  ///< of a pixel of the input
  double attention_macs = 0;    ///< of a pair of pixels of the input
  std::uint32_t blocks = 0;

  explicit Plan(const Sr3Config& c) {
    embed_first = linear("embed.first", c.inner, 4 * c.inner);
    embed_second = linear("embed.second", 4 * c.inner, c.inner);
    head = convolution("head", 2, c.inner, 3, 0, true);
    const auto levels = static_cast<std::int64_t>(c.multipliers.size());
    std::vector<std::int64_t> skips{c.inner};
    std::int64_t width = c.inner;
    for (std::int64_t l = 0; l < levels; ++l) {
      down.emplace_back();
      for (std::int64_t b = 0; b < c.blocks; ++b) {
        const std::int64_t out = c.inner * c.multipliers[static_cast<std::size_t>(l)];
        down.back().push_back(block(c, "down." + at(l, b), width, out, l, l == c.attention_level));
        skips.push_back(width = out);
      }
      if (l + 1 == levels) break;
      const std::string name = "down." + std::to_string(l) + ".shrink";
      shrink.push_back(convolution(name, width, width, 3, l + 1, true));
      shrink_unit.push_back(unit(name, shrink.back()));
      skips.push_back(width);
    }
    for (std::int64_t b = 0; b < 2; ++b)
      middle.push_back(block(c, "middle." + std::to_string(b), width, width, levels - 1, b == 0));
    up.resize(static_cast<std::size_t>(levels));
    grow.assign(static_cast<std::size_t>(levels), -1);
    grow_unit.assign(static_cast<std::size_t>(levels), 0);
    for (std::int64_t l = levels - 1; l >= 0; --l) {
      for (std::int64_t b = 0; b <= c.blocks; ++b) {
        const std::int64_t out = c.inner * c.multipliers[static_cast<std::size_t>(l)];
        up[static_cast<std::size_t>(l)].push_back(
            block(c, "up." + at(l, b), width + skips.back(), out, l, l == c.attention_level));
        skips.pop_back();
        width = out;
      }
      if (l == 0) continue;
      const std::string name = "up." + std::to_string(l) + ".grow";
      grow[static_cast<std::size_t>(l)] = convolution(name, width, width, 3, l - 1, true);
      grow_unit[static_cast<std::size_t>(l)] = unit(name, grow[static_cast<std::size_t>(l)]);
    }
    tail_norm = norm("tail.norm", width);
    tail = convolution("tail", width, 1, 3, 0, true);
  }

private:
  static std::string at(std::int64_t level, std::int64_t b) { return std::to_string(level) + "." + std::to_string(b); }
  std::int64_t add(const std::string& name, std::vector<std::int64_t> shape, Role role) {
    parameters.push_back({name, std::move(shape), role});
    return static_cast<std::int64_t>(parameters.size()) - 1;
  }
  /// Makes a unit of the parameters from `begin` on; its number.
  std::size_t unit(const std::string& name, std::int64_t begin) {
    units.push_back({name, begin, static_cast<std::int64_t>(parameters.size())});
    return units.size() - 1;
  }
  std::int64_t linear(const std::string& name, std::int64_t in, std::int64_t out) {
    const std::int64_t index = add(name + ".weight", {out, in}, Role::weight);
    add(name + ".bias", {out}, Role::bias);
    return index;
  }
  std::int64_t norm(const std::string& name, std::int64_t channels) {
    const std::int64_t index = add(name + ".weight", {channels}, Role::scale);
    add(name + ".bias", {channels}, Role::bias);
    return index;
  }
  std::int64_t convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
                           std::int64_t level, bool bias) {
    const std::int64_t index = add(name + ".weight", {out, in, kernel, kernel}, Role::weight);
    if (bias) add(name + ".bias", {out}, Role::bias);
    convolution_macs += static_cast<double>(in * out * kernel * kernel) / std::pow(4.0, static_cast<double>(level));
    return index;
  }
  Block block(const Sr3Config& c, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t level,
              bool attention) {
    Block b;
    b.number = blocks++;
    b.embed = linear(name + ".embed", c.inner, out);
    b.first_norm = norm(name + ".first.norm", in);
    b.first = convolution(name + ".first", in, out, 3, level, true);
    b.second_norm = norm(name + ".second.norm", out);
    b.second = convolution(name + ".second", out, out, 3, level, true);
    if (in != out) b.skip = convolution(name + ".skip", in, out, 1, level, true);
    if (attention) {
      b.attention_norm = norm(name + ".attention.norm", out);
      b.qkv = convolution(name + ".attention.qkv", out, 3 * out, 1, level, false);
      b.out = convolution(name + ".attention.out", out, out, 1, level, true);
      attention_macs += 2 * static_cast<double>(out) / std::pow(16.0, static_cast<double>(level));
    }
    b.unit = unit(name, b.embed);
    return b;
  }
};

namespace {

constexpr double kLongestPeriod = 1e4;  // of the noise level's sines and cosines

/// Rows (or columns, where there are fewer) orthonormal, uniformly distributed (Saxe et al. 2013).
at::Tensor orthogonal(const std::vector<std::int64_t>& shape, std::uint64_t seed, std::uint64_t item) {
  const std::int64_t rows = shape[0];
  std::int64_t columns = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) columns *= shape[d];
  at::Tensor normal =
      kernels::normal_noise({1, 1, rows, columns}, {seed, Purpose::weights, {item}}).view({rows, columns});
  if (rows < columns) normal = normal.t();
  const auto [q, r] = at::linalg_qr(normal);
  const at::Tensor unique = q * r.diag().sign();
  return (rows < columns ? unique.t() : unique).reshape(shape);
}

}  // namespace

nlohmann::json Sr3Config::to_json() const {
  return {{"inner", inner},   {"multipliers", multipliers}, {"blocks", blocks}, {"attention_level", attention_level},
          {"groups", groups}, {"dropout", dropout}};
}

Sr3Config Sr3Config::from_json(const nlohmann::json& json) {
  Sr3Config c;
  const auto refuse = [](const std::string& what) {
    throw Error(ExitCode::bad_data, "The network's configuration is not one of an sr3 network: " + what);
  };
  const auto whole = [&](const char* key, std::int64_t low, std::int64_t high) {
    const nlohmann::json& v = json.at(key);
    if (!v.is_number_integer() || v < low || v > high) refuse(std::string(key) + " is " + v.dump());
    return v.get<std::int64_t>();
  };
  try {
    c.inner = whole("inner", 2, 4096);
    c.blocks = whole("blocks", 1, 64);
    c.attention_level = whole("attention_level", -1, 8);
    c.groups = whole("groups", 1, 4096);
    c.multipliers.clear();
    for (const nlohmann::json& m : json.at("multipliers")) {
      if (!m.is_number_integer() || m < 1 || m > 64) refuse("multipliers hold " + m.dump());
      c.multipliers.push_back(m.get<std::int64_t>());
    }
    c.dropout = json.at("dropout").get<double>();
  } catch (const nlohmann::json::exception& e) {
    refuse(e.what());
  }
  if (c.multipliers.empty() || c.multipliers.size() > 8)
    refuse("it has " + std::to_string(c.multipliers.size()) + " levels");
  if (c.inner % 2 != 0 || c.inner % c.groups != 0)
    refuse("inner is " + std::to_string(c.inner) + ", and must be even and a multiple of groups, " +
           std::to_string(c.groups));
  if (c.attention_level >= static_cast<std::int64_t>(c.multipliers.size()))
    refuse("attention_level is " + std::to_string(c.attention_level) + ", and the last level is " +
           std::to_string(c.multipliers.size() - 1) + " (-1: no level)");
  if (!(c.dropout >= 0 && c.dropout < 1)) refuse("dropout is " + std::to_string(c.dropout));
  return c;
}

std::vector<Sr3Parameter> Sr3Network::layout(const Sr3Config& config) { return Plan(config).parameters; }

Sr3Network::Sr3Network(const Sr3Config& config, std::uint64_t seed, const at::Device& device, at::ScalarType dtype,
                       Weights weights)
    : config_(config), seed_(seed), dtype_(dtype), plan_(std::make_shared<const Plan>(config)) {
  if (device.is_cpu()) kernels::keep_freed_memory();
  for (std::size_t i = 0; i < plan_->parameters.size(); ++i) {
    const Sr3Parameter& p = plan_->parameters[i];
    at::Tensor value = weights == Weights::unset ? at::empty(p.shape, at::TensorOptions(device))
                       : p.role == Role::weight  ? orthogonal(p.shape, seed, i)
                       : p.role == Role::scale   ? at::ones(p.shape)
                                                 : at::zeros(p.shape);
    if (value.dim() == 4) value = value.contiguous(at::MemoryFormat::ChannelsLast);
    parameters_.push_back({p.name, value.to(device)});
  }
  const std::int64_t half = config.inner / 2;
  frequencies_ =
      (at::arange(half, at::kFloat) * (-std::log(kLongestPeriod) / static_cast<double>(half))).exp().to(device);
}

double Sr3Network::flops(std::int64_t height, std::int64_t width) const {
  const double pixels = static_cast<double>(height * width);
  double macs = plan_->convolution_macs * pixels + plan_->attention_macs * pixels * pixels;
  for (const Sr3Parameter& p : plan_->parameters)
    if (p.shape.size() == 2) macs += static_cast<double>(p.shape[0] * p.shape[1]);
  return 2 * macs;
}

std::vector<dist::Unit> Sr3Network::units() {
  std::vector<dist::Unit> out;
  std::size_t next = 0;
  const auto add = [&](std::size_t unit, std::int64_t end) {
    for (; next < static_cast<std::size_t>(end); ++next)
      out[unit].tensors.emplace_back(parameters_[next].name, parameters_[next].tensor);
  };
  for (const Plan::Range& u : plan_->units) out.push_back({u.name, {}});
  for (std::size_t u = 1; u < out.size(); ++u) {
    add(0, plan_->units[u].begin);
    add(u, plan_->units[u].end);
  }
  add(0, static_cast<std::int64_t>(parameters_.size()));
  return out;
}

std::vector<std::string> Sr3Network::unit_names() const {
  std::vector<std::string> names;
  for (std::size_t u = 1; u < plan_->units.size(); ++u) names.push_back(plan_->units[u].name);
  return names;
}

void Sr3Network::cast_weights(at::ScalarType dtype, std::int64_t begin, std::int64_t end) {
  packed_.clear();
  effective_.resize(parameters_.size());
  for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
    const std::string& name = parameters_[i].name;
    const bool stays = name.find("norm") != std::string::npos || name.find("embed") != std::string::npos;
    effective_[i] = stays ? parameters_[i].tensor : parameters_[i].tensor.to(dtype);
  }
}

at::Tensor Sr3Network::run(std::size_t unit, const std::vector<at::Tensor>& inputs, const Work& work) {
  if (prepared_) return work(inputs);
  const dist::UnitRunner::Work with_weights = [this, unit, work](const std::vector<at::Tensor>& given) {
    const Plan::Range& range = plan_->units[unit];
    cast_weights(dtype_, range.begin, range.end);
    const std::vector<at::Tensor> out{work(given)};
    for (auto i = static_cast<std::size_t>(range.begin); i < static_cast<std::size_t>(range.end); ++i)
      effective_[i].reset();  // the graph keeps what it needs
    return out;
  };
  return runner_ == nullptr ? with_weights(inputs)[0] : runner_->run(unit, inputs, with_weights)[0];
}

at::Tensor Sr3Network::convolve(const at::Tensor& x, std::int64_t index, std::int64_t stride) const {
  const at::Tensor& w = weight(index);
  const auto next = static_cast<std::size_t>(index) + 1;
  const bool bias = next < plan_->parameters.size() && plan_->parameters[next].role == Role::bias;
  const std::optional<at::Tensor> b = bias ? std::optional(effective_[next]) : std::nullopt;
  return w.size(2) == 3 && stride == 1 ? kernels::convolve_3x3(x, w, {.bias = b}) : kernels::convolve(x, w, b, stride);
}

at::Tensor Sr3Network::normalise(const at::Tensor& x, std::int64_t index, bool silu) const {
  return kernels::group_norm(x, config_.groups, weight(index), weight(index + 1), silu);
}

at::Tensor Sr3Network::attend(const Block& block, const at::Tensor& x) const {
  const std::int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  const at::Tensor qkv = convolve(normalise(x, block.attention_norm, false), block.qkv)
                             .permute({0, 2, 3, 1})
                             .reshape({n, 1, h * w, 3 * c});
  const std::vector<at::Tensor> parts = qkv.chunk(3, -1);
  const at::Tensor mixed = kernels::attention(parts[0], parts[1], parts[2]);
  return x + convolve(mixed.reshape({n, h, w, c}).permute({0, 3, 1, 2}), block.out);
}

at::Tensor Sr3Network::apply(const Block& block, const at::Tensor& x, const at::Tensor& embedding,
                             const at::Tensor& samples) const {
  // What the noise level adds to each channel joins the convolution's bias.
  const at::Tensor shift = at::linear(embedding, weight(block.embed), weight(block.embed + 1)) + raw(block.first + 1);
  at::Tensor h = kernels::convolve_3x3(normalise(x, block.first_norm, true), weight(block.first), {.bias = shift});
  h = normalise(h, block.second_norm, true);
  if (samples.defined() && config_.dropout > 0) h = kernels::dropout(h, config_.dropout, seed_, samples, block.number);
  h = kernels::convolve_3x3(h, weight(block.second),
                            {.bias = weight(block.second + 1), .other = block.skip < 0 ? x : convolve(x, block.skip)});
  return block.qkv < 0 ? h : attend(block, h);
}

at::Tensor Sr3Network::predict(const at::Tensor& noisy, const at::Tensor& g, const Conditions& conditions, bool drop) {
  if (!prepared_) {
    cast_weights(dtype_, 0, plan_->units[1].begin);
    cast_weights(dtype_, plan_->units.back().end, static_cast<std::int64_t>(parameters_.size()));
  }
  const kernels::UsePackedWeights use(prepared_ ? &packed_ : nullptr);
  const at::Tensor samples = drop ? conditions.samples : at::Tensor();
  const at::Tensor turns = g.unsqueeze(1) * frequencies_;
  at::Tensor e =
      at::linear(at::cat({turns.sin(), turns.cos()}, 1), weight(plan_->embed_first), weight(plan_->embed_first + 1));
  e = at::linear(at::silu(e), weight(plan_->embed_second), weight(plan_->embed_second + 1));

  at::Tensor h = convolve(at::cat({conditions.maps, noisy}, 1)
                              .to(weight(plan_->head).scalar_type())
                              .contiguous(at::MemoryFormat::ChannelsLast),
                          plan_->head);
  const auto block = [&](const Block& b, const std::vector<at::Tensor>& inputs) {  // state, noise level, skip
    return run(b.unit, inputs, [this, &b, samples](const std::vector<at::Tensor>& in) {
      return apply(b, in.size() > 2 ? at::cat({in[0], in[2]}, 1) : in[0], in[1], samples);
    });
  };
  std::vector<at::Tensor> skips{h};
  for (std::size_t l = 0; l < plan_->down.size(); ++l) {
    for (const Block& b : plan_->down[l]) skips.push_back(h = block(b, {h, e}));
    if (l < plan_->shrink.size())
      skips.push_back(h = run(plan_->shrink_unit[l], {h}, [this, l](const std::vector<at::Tensor>& in) {
                        return convolve(in[0], plan_->shrink[l], 2);
                      }));
  }
  for (const Block& b : plan_->middle) h = block(b, {h, e});
  for (std::size_t l = plan_->up.size(); l-- > 0;) {
    for (const Block& b : plan_->up[l]) {
      h = block(b, {h, e, skips.back()});
      skips.pop_back();
    }
    if (l == 0) break;
    h = run(plan_->grow_unit[l], {h}, [this, l](const std::vector<at::Tensor>& in) {
      return kernels::convolve_3x3_enlarged(in[0], weight(plan_->grow[l]), {.bias = weight(plan_->grow[l] + 1)});
    });
  }
  return convolve(normalise(h, plan_->tail_norm, true), plan_->tail);
}

at::Tensor Sr3Network::denoise(const at::Tensor& x, const at::Tensor& sigma, const Conditions& conditions) {
  const at::Tensor g = (sigma.square() + 1).rsqrt(), wide = g.view({-1, 1, 1, 1});
  return x - sigma.view({-1, 1, 1, 1}) * predict(wide * x, g, conditions, false).to(x.scalar_type());
}

at::Tensor Sr3Network::loss(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& sigma,
                            const Conditions& conditions) {
  const at::Tensor g = (sigma.square() + 1).rsqrt();
  const at::Tensor noisy = (x0 + noise * sigma.view({-1, 1, 1, 1})) * g.view({-1, 1, 1, 1});
  return (noise - predict(noisy, g, conditions, conditions.samples.defined()).to(noise.scalar_type())).abs().mean();
}

void Sr3Network::prepare_for_sampling(at::ScalarType dtype) {
  c10::NoGradGuard no_grad;
  cast_weights(dtype, 0, static_cast<std::int64_t>(parameters_.size()));
  prepared_ = true;
}

}  // namespace cirrus::diffusion
