// A language-model-like task for tests of parallel training: an embedding, equal transformer blocks and a head, trained
// on sequences that follow from their numbers alone. In any type, with frozen weights, unused parameters, sequences of
// unequal lengths, as asked.
#pragma once

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "kernels/normal_noise.h"
#include "train/trainer.h"

namespace cirrus::test {

struct BlocksOptions {
  std::int64_t blocks = 16, width = 32, words = 24, length = 12;
  at::ScalarType type = at::kDouble;
  bool frozen = false;   ///< LoRA-like: large matrices are frozen, small ones beside them trained
  bool unused = false;   ///< each block has a parameter that no step uses, and one that odd samples alone use
  bool unequal = false;  ///< sequences have between 3 and `length` words; the loss is the mean over words
};

class BlocksTask : public train::Task {
public:
  explicit BlocksTask(const BlocksOptions& o) : o_(o) {
    embedding_ = make("embedding", {o.words, o.width}, true);
    head_ = make("head", {o.words, o.width}, true);
    for (std::int64_t b = 0; b < o.blocks; ++b) {
      Block& k = blocks_.emplace_back();
      const std::string name = "block." + std::to_string(b) + ".";
      k.unit.name = "block." + std::to_string(b);
      const auto add = [&](const char* what, std::vector<std::int64_t> shape, bool trained) {
        const at::Tensor t = make(name + what, std::move(shape), trained);
        k.unit.tensors.emplace_back(name + what, t);
        return t;
      };
      k.norm = add("norm", {o.width}, !o.frozen);
      k.qkv = add("qkv", {3 * o.width, o.width}, !o.frozen);
      k.out = add("out", {o.width, o.width}, !o.frozen);
      k.up = add("up", {4 * o.width, o.width}, !o.frozen);
      k.down = add("down", {o.width, 4 * o.width}, !o.frozen);
      if (o.frozen) k.a = add("lora_a", {2, o.width}, true), k.b = add("lora_b", {3 * o.width, 2}, true);
      if (o.unused) k.never = add("never", {5}, true), k.odd = add("odd", {o.width}, true);
    }
  }

  std::vector<dist::Unit> units() override {
    std::vector<dist::Unit> all{{"root", {{"embedding", embedding_}, {"head", head_}}}};
    for (const Block& b : blocks_) all.push_back(b.unit);
    return all;
  }
  void run_units_on(dist::UnitRunner* runner) override { runner_ = runner; }
  void begin_step(std::int64_t step) override {
    if (at_begin) at_begin(step);
  }
  void load(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t batch) override {
    samples_.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      Sample& s = samples_.emplace_back();
      s.number = step * batch + first + i;
      Stream stream(Address(5, Purpose::training_order, static_cast<std::uint64_t>(s.number)));
      const std::int64_t n =
          o_.unequal ? 3 + static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(o_.length - 2)))
                     : o_.length;
      std::vector<std::int64_t> words{static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(o_.words)))};
      while (static_cast<std::int64_t>(words.size()) <= n)  // the next word mostly follows from the last
        words.push_back((3 * words.back() + 1 + static_cast<std::int64_t>(stream.below(2))) % o_.words);
      s.words = at::tensor(words, at::kLong);
    }
  }
  double terms(std::int64_t begin, std::int64_t count) override {
    if (!o_.unequal) return -1;
    double n = 0;
    for (std::int64_t i = begin; i < begin + count; ++i)
      n += static_cast<double>(samples_[static_cast<std::size_t>(i)].words.numel() - 1);
    return n;
  }
  at::Tensor loss(std::int64_t begin, std::int64_t count) override {
    at::Tensor total;
    std::vector<at::Tensor> states;
    bool any_odd = false;
    for (std::int64_t i = begin; i < begin + count; ++i) {
      const Sample& s = samples_[static_cast<std::size_t>(i)];
      any_odd = any_odd || s.number % 2 == 1;
      states.push_back(at::embedding(embedding_, s.words.narrow(0, 0, s.words.numel() - 1)));
    }
    for (std::size_t k = 0; k < blocks_.size(); ++k) states = run(k, states, begin, any_odd);
    double words = 0;
    for (std::int64_t i = begin; i < begin + count; ++i) {
      const Sample& s = samples_[static_cast<std::size_t>(i)];
      const at::Tensor logits = at::linear(states[static_cast<std::size_t>(i - begin)], head_);
      const at::Tensor each =
          at::nll_loss(at::log_softmax(logits, -1), s.words.narrow(0, 1, s.words.numel() - 1), {}, 2);
      words += static_cast<double>(s.words.numel() - 1);
      total = total.defined() ? total + each : each;
    }
    return total / words;
  }
  std::map<std::string, std::string> model_metadata(std::int64_t step, std::int64_t) override {
    return {{"step", std::to_string(step)}};
  }
  std::string fingerprint() const override { return "blocks"; }

  std::function<void(std::int64_t)> at_begin;

private:
  struct Block {
    dist::Unit unit;
    at::Tensor norm, qkv, out, up, down, a, b, never, odd;
  };
  struct Sample {
    std::int64_t number = 0;
    at::Tensor words;
  };

  at::Tensor make(const std::string&, std::vector<std::int64_t> shape, bool trained) {
    const double fan = static_cast<double>(shape.back());
    const at::Tensor t =
        shape.size() == 1 ? at::ones(shape) : kernels::normals(shape, 11, Purpose::weights, made_++) / std::sqrt(fan);
    return t.to(o_.type).requires_grad_(trained);
  }

  std::vector<at::Tensor> run(std::size_t k, const std::vector<at::Tensor>& states, std::int64_t begin, bool any_odd) {
    const dist::UnitRunner::Work work = [this, k, begin, any_odd](const std::vector<at::Tensor>& in) {
      const Block& b = blocks_[k];
      std::vector<at::Tensor> out;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const at::Tensor& x = in[i];
        const at::Tensor h = x * (x.square().mean(-1, true) + 1e-6).rsqrt() * b.norm;
        at::Tensor qkv = at::linear(h, b.qkv);
        if (b.a.defined()) qkv = qkv + at::linear(at::linear(h, b.a), b.b);
        const std::vector<at::Tensor> parts = qkv.chunk(3, -1);
        at::Tensor scores = parts[0].matmul(parts[1].t()) / std::sqrt(static_cast<double>(o_.width));
        scores = scores.masked_fill(at::ones_like(scores).triu(1).to(at::kBool), -1e9);
        at::Tensor y = x + at::linear(at::softmax(scores, -1).matmul(parts[2]), b.out);
        y = y + at::linear(at::gelu(at::linear(y, b.up)), b.down);
        const bool odd = samples_[static_cast<std::size_t>(begin) + i].number % 2 == 1;
        if (b.odd.defined() && any_odd && odd) y = y * b.odd;
        out.push_back(y);
      }
      return out;
    };
    return runner_ == nullptr ? work(states) : runner_->run(k + 1, states, work);
  }

  const BlocksOptions o_;
  std::uint64_t made_ = 0;
  at::Tensor embedding_, head_;
  std::vector<Block> blocks_;
  std::vector<Sample> samples_;
  dist::UnitRunner* runner_ = nullptr;
};

}  // namespace cirrus::test
