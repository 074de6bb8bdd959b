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

}  // namespace

at::Tensor dropout(const at::Tensor& x, double p, std::uint64_t seed, const at::Tensor& samples, std::uint32_t layer) {
  TORCH_CHECK(x.dim() == 4 && p >= 0 && p < 1 && samples.dim() == 1 && samples.size(0) == x.size(0) &&
                  samples.scalar_type() == at::kLong && samples.device() == x.device(),
              "dropout: ", x.toString(), x.sizes(), " by ", p, ", samples ", samples.toString(), samples.sizes());
  if (!dropout_kernel().takes(x)) return reference::dropout(x, p, seed, samples, layer);
  return Dropout::apply(x, p, static_cast<std::int64_t>(seed), samples.contiguous(), layer);
}

}  // namespace cirrus::kernels
