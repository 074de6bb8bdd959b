// A model as data parallel and sharded training see it: units (blocks of a network) in the order in which they run,
// each with its tensors. A network runs its units through a UnitRunner, which has their parameters at hand meanwhile.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "dist/tensor_file.h"

namespace cirrus::dist {

/// The first unit of a model is its root: what is used outside of any block (embeddings, heads, shared tensors); its
/// parameters are at hand during the whole step. Every tensor belongs to one unit. Those that require gradients are
/// trained, others are frozen.
struct Unit {
  std::string name;
  NamedTensors tensors;
};

class UnitRunner {
public:
  using Tensors = std::vector<at::Tensor>;
  using Work = std::function<Tensors(const Tensors& inputs)>;
  virtual ~UnitRunner() = default;
  /// work(inputs), where `work` uses the parameters of unit `index` (from 1: the root is always there) and of the root,
  /// and no tensors of the graph but its inputs. It may be called again in the backward pass, and must then give the
  /// same. Units run in order, each at most once a forward pass.
  virtual Tensors run(std::size_t index, const Tensors& inputs, const Work& work) = 0;
};

/// `work` without keeping its inner results: it runs again in the backward pass (activation checkpointing; Chen et al.
/// 2016, arXiv 1604.06174).
UnitRunner::Tensors run_recomputed(const UnitRunner::Tensors& inputs, const UnitRunner::Work& work);

}  // namespace cirrus::dist
