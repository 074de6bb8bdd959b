// Convolutions by oneDNN, with weights that were brought into its own order once.
#include <ATen/core/dispatch/Dispatcher.h>

#include "kernels/convolution.h"
#include "kernels/packed_weights.h"

namespace cirrus::kernels {
namespace {

/// Whether oneDNN convolves in this type here (bfloat16 needs AVX-512); the operator is LibTorch's, for its compiler.
bool has_blocked(at::ScalarType type) {
  const auto probe = [](at::ScalarType t) {
    try {
      at::mkldnn_reorder_conv2d_weight(at::zeros({8, 8, 3, 3}, t).to_mkldnn(), 1, 1, 1, 1);
      return c10::Dispatcher::singleton().findSchema({"mkldnn::_convolution_pointwise", ""}).has_value();
    } catch (const c10::Error&) {
      return false;
    }
  };
  static const bool single = probe(at::kFloat), half = probe(at::kBFloat16);
  return type == at::kFloat ? single : type == at::kBFloat16 && half;
}

at::Tensor convolve_blocked(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            at::IntArrayRef padding, at::IntArrayRef stride) {
  static const c10::OperatorHandle kernel =
      *c10::Dispatcher::singleton().findSchema({"mkldnn::_convolution_pointwise", ""});
  torch::jit::Stack stack{x,
                          weight,
                          bias,
                          padding,
                          stride,
                          at::IntArrayRef{1, 1},
                          std::int64_t{1},
                          "none",
                          c10::List<std::optional<at::Scalar>>(),
                          std::optional<std::string>()};
  kernel.callBoxed(stack);
  return stack.back().toTensor();
}

}  // namespace

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                    std::int64_t stride) {
  const std::int64_t pad = weight.size(2) / 2;
  PackedWeights::Forms* forms =
      x.numel() > 0 && x.scalar_type() == weight.scalar_type() ? packed_forms(weight) : nullptr;
  if (forms == nullptr || !has_blocked(x.scalar_type())) return at::conv2d(x, weight, bias, stride, pad);
  if (!forms->blocked.defined())
    forms->blocked = at::mkldnn_reorder_conv2d_weight(weight.to_mkldnn(), pad, stride, 1, 1, x.sizes());
  return convolve_blocked(x, forms->blocked, bias, {pad, pad}, {stride, stride});
}

}  // namespace cirrus::kernels
