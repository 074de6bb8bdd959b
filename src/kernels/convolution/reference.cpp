// The 3 x 3 convolution as ATen's.
#include "kernels/convolution.h"

namespace cirrus::kernels::reference {

at::Tensor convolve_3x3(const at::Tensor& x, const at::Tensor& weight, const Addition& add) {
  const bool plain = add.bias && add.bias->dim() == 1 && add.scale == 1;  // ATen adds it
  at::Tensor y = convolve(x, weight, plain ? std::optional(add.bias->to(x.scalar_type())) : std::nullopt);
  if (add.scale != 1) y = y * add.scale;
  if (add.bias && !plain) y = y + add.bias->to(x.scalar_type()).view({-1, weight.size(0), 1, 1});
  if (add.other) y = y + (add.other_scale == 1 ? *add.other : *add.other * add.other_scale);
  return y;
}

at::Tensor convolve_3x3_enlarged(const at::Tensor& x, const at::Tensor& weight, const Addition& add) {
  return reference::convolve_3x3(at::upsample_nearest2d(x, at::IntArrayRef{2 * x.size(2), 2 * x.size(3)}), weight, add);
}

}  // namespace cirrus::kernels::reference
