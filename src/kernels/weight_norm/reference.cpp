// Weight normalisation as ATen operators.
#include "kernels/weight_norm.h"

namespace cirrus::kernels::reference {

std::vector<at::Tensor> normalize_weights(const std::vector<at::Tensor>& w, at::ScalarType dtype) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& x : w) {
    const at::Tensor norm = x.flatten(1).square().sum(1).add(1e-12).sqrt();
    std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
    shape[0] = x.size(0);
    const at::Tensor y = (x / norm.view(shape)).to(dtype);
    out.push_back(x.dim() == 4 ? y.contiguous(at::MemoryFormat::ChannelsLast) : y);
  }
  return out;
}

void force_unit_weights(const std::vector<at::Tensor>& weights) {
  for (const at::Tensor& w : weights) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(w.dim()), 1);
    shape[0] = w.size(0);
    w.div_(w.flatten(1).square().mean(1).add(1e-12).sqrt().view(shape));
  }
}

}  // namespace cirrus::kernels::reference
