// The 3 x 3 convolution: checks, gradients, and its entries in torch's dispatcher.
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include "kernels/autograd.h"
#include "kernels/convolution.h"
#include "kernels/dispatch.h"
#include "kernels/packed_weights.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace cpu {
at::Tensor winograd(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& matrices,
                    bool transposed, std::int64_t factor, const std::optional<at::Tensor>& bias,
                    const std::optional<at::Tensor>& other, double scale, double other_scale);
at::Tensor winograd_matrices(const at::Tensor& weight);
at::Tensor winograd_weights(const at::Tensor& x, const at::Tensor& grad, std::int64_t factor, double scale);
}  // namespace cpu

namespace {

// matrices: those of the weight, as winograd_matrices gives them, if they are at hand. transposed: the gradient of the
// convolution's input from that of its output. factor: each pixel of the convolution's input stands for so many in both
// directions.
TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def(
      "winograd(Tensor x, Tensor weight, Tensor? matrices, bool transposed, int factor, Tensor? bias, Tensor? other, "
      "float scale,"
      " float other_scale) -> Tensor");
  m.def("winograd_matrices(Tensor weight) -> Tensor");
  m.def("winograd_weights(Tensor x, Tensor grad, int factor, float scale) -> Tensor");
}
TORCH_LIBRARY_IMPL(cirrus, CPU, m) {
  m.impl("winograd", cpu::winograd);
  m.impl("winograd_matrices", cpu::winograd_matrices);
  m.impl("winograd_weights", cpu::winograd_weights);
}

const auto& winograd_kernel() {
  static const FusedOperator<decltype(cpu::winograd)> kernel("cirrus::winograd");
  return kernel;
}

struct Convolution : Function<Convolution> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& other,
                            std::int64_t factor, double scale, double other_scale) {
    const at::Tensor x = channels_last(input), w = channels_last(weight);
    ctx->save_for_backward({x, w});
    ctx->saved_data["factor"] = factor;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["other_scale"] = other_scale;
    ctx->saved_data["other"] = other.has_value();
    ctx->saved_data["bias"] = bias ? bias->dim() : 0;
    return winograd_kernel()(x, w, std::nullopt, false, factor, bias,
                             other ? std::optional(channels_last(*other)) : std::nullopt, scale, other_scale);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::winograd_weights)> weights_kernel("cirrus::winograd_weights");
    const variable_list saved = ctx->get_saved_variables();
    const std::int64_t factor = ctx->saved_data["factor"].toInt(), bias = ctx->saved_data["bias"].toInt();
    const double scale = ctx->saved_data["scale"].toDouble(), other_scale = ctx->saved_data["other_scale"].toDouble();
    const at::Tensor &x = saved[0], &w = saved[1], g = channels_last(grads[0]);
    at::Tensor dx, dw, db, dother;
    if (ctx->needs_input_grad(0)) dx = winograd_kernel()(g, w, std::nullopt, true, factor, {}, {}, scale, 1);
    if (ctx->needs_input_grad(1)) dw = weights_kernel(x, g, factor, scale);
    std::size_t next = 2;  // what was not given is not counted
    if (bias > 0 && ctx->needs_input_grad(next++)) db = bias == 2 ? g.sum({2, 3}) : g.sum({0, 2, 3});
    if (ctx->saved_data["other"].toBool() && ctx->needs_input_grad(next))
      dother = other_scale == 1 ? g : g * other_scale;
    return {dx, dw, db, dother, {}, {}, {}};
  }
};

/// Whether transforming the weights, as much work as some tiles, pays: at fewer tiles where the plain convolution is
/// slow (float32) and in training, whose batches are large. A sample's own size decides, so that it does not see its
/// batch.
bool pays(const at::Tensor& x, std::int64_t factor) {
  const std::int64_t least = x.scalar_type() == at::kFloat || at::GradMode::is_enabled() ? 4 : 16;
  const auto tiles = [&](std::int64_t side) { return (side * factor + 3) / 4; };
  return tiles(x.size(2)) * tiles(x.size(3)) >= least;
}

bool is_fused(const at::Tensor& x, const at::Tensor& weight, std::int64_t factor) {
  return winograd_kernel().takes(x) && weight.size(0) % 16 == 0 && weight.size(1) % 16 == 0 && x.numel() > 0 &&
         weight.numel() > 0 && pays(x, factor);
}

/// Without gradients, with the matrices at hand.
at::Tensor sample(const at::Tensor& input, const at::Tensor& weight, PackedWeights::Forms& forms, const Addition& add,
                  std::int64_t factor) {
  static const FusedOperator<decltype(cpu::winograd_matrices)> matrices_kernel("cirrus::winograd_matrices");
  const at::Tensor x = channels_last(input), w = channels_last(weight);
  if (!forms.matrices.defined()) forms.matrices = matrices_kernel(w);
  return winograd_kernel()(x, w, forms.matrices, false, factor, add.bias,
                           add.other ? std::optional(channels_last(*add.other)) : std::nullopt, add.scale,
                           add.other_scale);
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const Addition& add, std::int64_t factor,
                    const char* name) {
  TORCH_CHECK(x.dim() == 4 && weight.dim() == 4 && weight.size(1) == x.size(1) && weight.size(2) == 3 &&
                  weight.size(3) == 3 && x.scalar_type() == weight.scalar_type(),
              name, ": ", x.toString(), x.sizes(), " with ", weight.toString(), weight.sizes());
  const std::int64_t n = x.size(0), o = weight.size(0);
  TORCH_CHECK(!add.bias || add.bias->sizes() == at::IntArrayRef{o} || add.bias->sizes() == at::IntArrayRef({n, o}),
              name, ": bias ", add.bias->sizes());
  TORCH_CHECK(!add.other || (add.other->scalar_type() == x.scalar_type() &&
                             add.other->sizes() == at::IntArrayRef({n, o, factor * x.size(2), factor * x.size(3)})),
              name, ": other ", add.other->toString(), add.other->sizes());
  if (!is_fused(x, weight, factor))
    return factor == 1 ? reference::convolve_3x3(x, weight, add) : reference::convolve_3x3_enlarged(x, weight, add);
  if (PackedWeights::Forms* forms = packed_forms(weight)) return sample(x, weight, *forms, add, factor);
  return Convolution::apply(x, weight, add.bias, add.other, factor, add.scale, add.other_scale);
}

}  // namespace

bool adds_while_convolving(const at::Tensor& x, const at::Tensor& weight, bool enlarged) {
  return is_fused(x, weight, enlarged ? 2 : 1);
}

at::Tensor convolve_3x3(const at::Tensor& x, const at::Tensor& weight, const Addition& add) {
  return convolve(x, weight, add, 1, "convolve_3x3");
}

at::Tensor convolve_3x3_enlarged(const at::Tensor& x, const at::Tensor& weight, const Addition& add) {
  return convolve(x, weight, add, 2, "convolve_3x3_enlarged");
}

}  // namespace cirrus::kernels
