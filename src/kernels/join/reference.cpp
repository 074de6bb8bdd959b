// The decoder's join as ATen operators.
#include "kernels/join.h"

#include "kernels/activation.h"

namespace cirrus::kernels::reference {
namespace {

at::Tensor repeated(const at::Tensor& coarse, const at::Tensor& fine) {
  return coarse.size(2) == fine.size(2) ? coarse : at::upsample_nearest2d(coarse, {fine.size(2), fine.size(3)});
}

}  // namespace

at::Tensor upsample_cat_act(const at::Tensor& coarse, const at::Tensor& fine) {
  const auto [wa, wb] = cat_weights(coarse.size(1), fine.size(1));
  return act(at::cat({repeated(coarse, fine) * wa, fine * wb}, 1));
}

at::Tensor upsample_sum(const at::Tensor& coarse, const at::Tensor& fine, const at::Tensor& other,
                        const std::array<double, 3>& k) {
  return repeated(coarse, fine) * k[0] + fine * k[1] + other * k[2];
}

}  // namespace cirrus::kernels::reference
