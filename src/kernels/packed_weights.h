// Weights that do not change any more, in the forms that convolutions on the CPU read them in: made when first needed
// instead of at each evaluation. For sampling.
#pragma once

#include <ATen/ATen.h>

#include <map>

namespace cirrus::kernels {

/// Forms of the weights of one network. Cleared by its owner whenever the weights change: they are known by their place
/// in memory. Not thread-safe.
class PackedWeights {
public:
  struct Forms {
    at::Tensor matrices;  ///< Winograd's
    at::Tensor blocked;   ///< oneDNN's, an opaque tensor
  };
  /// The forms of a weight or of a slice of one; null once all together take a GB, which would be the network's size
  /// again and again.
  Forms* of(const at::Tensor& weight);
  void clear() {
    forms_.clear();
    bytes_ = 0;
  }

private:
  std::map<std::tuple<const void*, std::vector<std::int64_t>, std::int64_t>, Forms> forms_;
  std::int64_t bytes_ = 0;
};

/// While it lives, convolutions of this thread that need no gradients take their weights from there; null: as they are.
class UsePackedWeights {
public:
  explicit UsePackedWeights(PackedWeights* weights);
  ~UsePackedWeights();
  UsePackedWeights(const UsePackedWeights&) = delete;
  UsePackedWeights& operator=(const UsePackedWeights&) = delete;

private:
  PackedWeights* before_;
};

/// The forms of the weight in use on this thread; null: none, or gradients are wanted, or it is on no CPU.
PackedWeights::Forms* packed_forms(const at::Tensor& weight);

}  // namespace cirrus::kernels
