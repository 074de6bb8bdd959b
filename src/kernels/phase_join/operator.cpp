// The join of phases: checks, gradients, its entries in torch's dispatcher; and the weights of the phases.
#include <torch/library.h>

#include <map>
#include <mutex>

#include "kernels/autograd.h"
#include "kernels/dispatch.h"
#include "kernels/phase_join.h"
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace cpu {
std::tuple<at::Tensor, at::Tensor> phase_sum_scale_act(const at::Tensor& phases, const at::Tensor& fine,
                                                       const at::Tensor& scale);
std::tuple<at::Tensor, at::Tensor, at::Tensor> phase_sum_scale_act_backward(const at::Tensor& sum,
                                                                            const at::Tensor& scale,
                                                                            const at::Tensor& grad);
}  // namespace cpu

namespace {

TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def("phase_sum_scale_act(Tensor phases, Tensor fine, Tensor scale) -> (Tensor, Tensor)");
  m.def("phase_sum_scale_act_backward(Tensor sum, Tensor scale, Tensor grad) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cirrus, CPU, m) {
  m.impl("phase_sum_scale_act", cpu::phase_sum_scale_act);
  m.impl("phase_sum_scale_act_backward", cpu::phase_sum_scale_act_backward);
}

const auto& join_kernel() {
  static const FusedOperator<decltype(cpu::phase_sum_scale_act)> kernel("cirrus::phase_sum_scale_act");
  return kernel;
}

struct PhaseJoin : Function<PhaseJoin> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& phases, const at::Tensor& fine,
                            const at::Tensor& scale) {
    const at::Tensor s = scale.to(at::kFloat).contiguous();
    const auto [y, sum] = join_kernel()(channels_last(phases), channels_last(fine), s);
    ctx->save_for_backward({sum, s});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const FusedOperator<decltype(cpu::phase_sum_scale_act_backward)> kernel(
        "cirrus::phase_sum_scale_act_backward");
    const variable_list saved = ctx->get_saved_variables();
    const auto [dphases, dfine, ds] = kernel(saved[0], saved[1], channels_last(grads[0]));
    return {dphases, dfine, ds};
  }
};

/// [9, 16]: which of the nine taps (3 ky + kx) fall on which of a phase's four pixels (4 phase + 2 ty + tx). Seen from
/// an even pixel, tap 0 falls on the pixel before its own, 1 and 2 on its own; from an odd one, 0 and 1 on its own.
at::Tensor taps_of_phases(const at::Device& device) {
  at::Tensor m = at::zeros({2, 2, 3}, at::kFloat);  // phase, tap of two, tap of three
  auto a = m.accessor<float, 3>();
  a[0][0][0] = a[0][1][1] = a[0][1][2] = a[1][0][0] = a[1][0][1] = a[1][1][2] = 1;
  return at::einsum("ptk,qul->klpqtu", {m, m}).reshape({9, 16}).to(device);
}

}  // namespace

at::Tensor phase_weights(const at::Tensor& w, at::ScalarType dtype) {
  TORCH_CHECK(w.dim() == 4 && w.size(2) == 3 && w.size(3) == 3, "phase_weights: ", w.sizes());
  static std::map<std::string, at::Tensor> known;  // one constant a device
  static std::mutex mutex;
  at::Tensor taps;
  {
    const std::lock_guard lock(mutex);
    auto [it, fresh] = known.try_emplace(w.device().str());
    if (fresh) it->second = taps_of_phases(w.device());
    taps = it->second;
  }
  const std::int64_t out = w.size(0), in = w.size(1);
  const at::ScalarType wide = w.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return w.to(wide)
      .permute({2, 3, 0, 1})  // [9, O I]
      .reshape({9, out * in})
      .t()
      .matmul(taps.to(wide))
      .view({out, in, 4, 2, 2})
      .permute({2, 0, 3, 4, 1})  // [4, O, 2, 2, I]: channels-last
      .to(dtype)
      .reshape({4 * out, 2, 2, in})
      .permute({0, 3, 1, 2});
}

at::Tensor phase_sum_scale_act(const at::Tensor& phases, const at::Tensor& fine, const at::Tensor& scale) {
  TORCH_CHECK(phases.dim() == 4 && fine.dim() == 4 && phases.scalar_type() == fine.scalar_type() &&
                  phases.size(0) == fine.size(0) && phases.size(1) == 4 * fine.size(1) && fine.size(2) % 2 == 0 &&
                  fine.size(3) % 2 == 0 && phases.size(2) == fine.size(2) / 2 + 1 &&
                  phases.size(3) == fine.size(3) / 2 + 1 && scale.dim() == 2 && scale.size(0) == fine.size(0) &&
                  scale.size(1) == fine.size(1),
              "phase_sum_scale_act: ", phases.toString(), phases.sizes(), ", ", fine.toString(), fine.sizes(),
              ", scale ", scale.sizes());
  return join_kernel().takes(fine) ? PhaseJoin::apply(phases, fine, scale)
                                   : reference::phase_sum_scale_act(phases, fine, scale);
}

}  // namespace cirrus::kernels
