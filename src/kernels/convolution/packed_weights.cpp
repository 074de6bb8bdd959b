// Which forms of weights are in use.
#include "kernels/packed_weights.h"

#include <c10/core/GradMode.h>

namespace cirrus::kernels {
namespace {

constexpr std::int64_t kMostBytes = 1'000'000'000;
constexpr std::int64_t kMatrixBytes = 36 * 4;  // of Winograd's matrices for the nine taps between two channels

thread_local PackedWeights* in_use = nullptr;

}  // namespace

PackedWeights::Forms* PackedWeights::of(const at::Tensor& weight) {
  const auto key = std::make_tuple(weight.const_data_ptr(), weight.sizes().vec(), weight.stride(0));
  const auto found = forms_.find(key);
  if (found != forms_.end()) return &found->second;
  const std::int64_t bytes =
      std::max<std::int64_t>(weight.numel() * weight.element_size(), weight.size(0) * weight.size(1) * kMatrixBytes);
  if (bytes_ + bytes > kMostBytes) return nullptr;
  bytes_ += bytes;
  return &forms_[key];
}

UsePackedWeights::UsePackedWeights(PackedWeights* weights) : before_(in_use) { in_use = weights; }
UsePackedWeights::~UsePackedWeights() { in_use = before_; }

PackedWeights::Forms* packed_forms(const at::Tensor& weight) {
  if (in_use == nullptr || at::GradMode::is_enabled() || !weight.is_cpu()) return nullptr;
  return in_use->of(weight);
}

}  // namespace cirrus::kernels
