// The moving average of weights: checks, and its entry in torch's dispatcher.
#include <torch/library.h>

#include "kernels/average.h"
#include "kernels/dispatch.h"

namespace cirrus::kernels {
namespace cpu {
void average_weights(at::TensorList averaged, at::TensorList weights, const at::Tensor& share);
}

namespace {

TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def("average_weights(Tensor(a!)[] averaged, Tensor[] weights, Tensor share) -> ()");
}
TORCH_LIBRARY_IMPL(cirrus, CPU, m) { m.impl("average_weights", cpu::average_weights); }

}  // namespace

void average_weights(const std::vector<at::Tensor>& averaged, const std::vector<at::Tensor>& weights,
                     const at::Tensor& share) {
  static const FusedOperator<decltype(cpu::average_weights)> kernel("cirrus::average_weights");
  TORCH_CHECK(averaged.size() == weights.size() && share.numel() == 1, "average_weights: ", averaged.size(),
              " averages of ", weights.size(), " weights, share ", share.sizes());
  const auto plain = [](const at::Tensor& x) {
    return x.scalar_type() == at::kFloat && x.is_non_overlapping_and_dense();
  };
  std::vector<at::Tensor> to, from, others_to, others_from;  // others: not the same dense memory in both
  for (std::size_t i = 0; i < averaged.size(); ++i) {
    const at::Tensor &a = averaged[i], &w = weights[i];
    TORCH_CHECK(a.sizes() == w.sizes() && a.device() == w.device() && share.device() == a.device(),
                "average_weights: average ", i, " is ", a.toString(), a.sizes(), " of ", w.toString(), w.sizes());
    const bool fused = plain(a) && plain(w) && a.strides() == w.strides() && share.scalar_type() == at::kFloat &&
                       kernel.on_device_of(a);
    (fused ? to : others_to).push_back(a);
    (fused ? from : others_from).push_back(w);
  }
  if (!to.empty()) kernel(to, from, share);
  reference::average_weights(others_to, others_from, share);
}

}  // namespace cirrus::kernels
