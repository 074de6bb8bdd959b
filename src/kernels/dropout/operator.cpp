// Addressed dropout: checks, its gradient (itself), and its entry in torch's dispatcher.
#include <torch/library.h>

#include "kernels/autograd.h"
#include "kernels/dispatch.h"
#include "kernels/dropout.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace cpu {
at::Tensor dropout(const at::Tensor& x, double p, std::int64_t seed, const at::Tensor& samples, std::int64_t layer);
}

namespace {

// Unsigned numbers travel as their bit patterns.
TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def("dropout(Tensor x, float p, int seed, Tensor samples, int layer) -> Tensor");
}
TORCH_LIBRARY_IMPL(cirrus, CPU, m) { m.impl("dropout", cpu::dropout); }

const auto& dropout_kernel() {
  static const FusedOperator<decltype(cpu::dropout)> kernel("cirrus::dropout");
  return kernel;
}

struct Dropout : Function<Dropout> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, double p, std::int64_t seed,
                            const at::Tensor& samples, std::int64_t layer) {
    ctx->save_for_backward({samples});
    ctx->saved_data["p"] = p;
    ctx->saved_data["seed"] = seed;
    ctx->saved_data["layer"] = layer;
    return dropout_kernel()(channels_last(x), p, seed, samples, layer);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor dx =
        dropout_kernel()(channels_last(grads[0]), ctx->saved_data["p"].toDouble(), ctx->saved_data["seed"].toInt(),
                         ctx->get_saved_variables()[0], ctx->saved_data["layer"].toInt());
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

/// Which values of x are kept, on its device: made by the CPU's kernel out of ones, copied once, a byte a value.
at::Tensor kept_values(const at::Tensor& x, double p, std::uint64_t seed, const at::Tensor& samples,
                       std::uint32_t layer) {
  const at::Tensor ones = channels_last(at::ones({1}, at::kBFloat16).expand(x.sizes()));
  return cpu::dropout(ones, p, static_cast<std::int64_t>(seed), samples.to(at::kCPU).contiguous(), layer)
      .gt(0)
      .to(x.device());
}

}  // namespace

bool has_dropout_kernel(const at::Device& device) {
  return dropout_kernel().on_device_of(at::empty({0}, at::TensorOptions(device)));
}

at::Tensor dropout(const at::Tensor& x, double p, std::uint64_t seed, const at::Tensor& samples, std::uint32_t layer) {
  const bool fused = dropout_kernel().takes(x);
  TORCH_CHECK(x.dim() == 4 && p >= 0 && p < 1 && samples.dim() == 1 && samples.size(0) == x.size(0) &&
                  samples.scalar_type() == at::kLong &&
                  (samples.device() == x.device() || (samples.is_cpu() && !fused)),
              "dropout: ", x.toString(), x.sizes(), " by ", p, ", samples ", samples.toString(), samples.sizes());
  if (fused) return Dropout::apply(x, p, static_cast<std::int64_t>(seed), samples.contiguous(), layer);
  // The factor is rounded once, in at least float32, whatever x is.
  const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return (channels_last(x).to(wide) * (1 / (1 - p)) * kept_values(x, p, seed, samples, layer)).to(x.scalar_type());
}

}  // namespace cirrus::kernels
