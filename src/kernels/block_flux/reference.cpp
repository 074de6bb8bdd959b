// The projection of blocks as ATen operators.
#include "kernels/block_flux.h"

namespace cirrus::kernels::reference {

at::Tensor project_blocks(const at::Tensor& t, const at::Tensor& q, std::int64_t s) {
  const std::vector<std::int64_t> shape = t.sizes().vec();
  const std::int64_t h = q.size(0), w = q.size(1);
  std::vector<std::int64_t> blocked(shape.begin(), shape.end() - 2);
  blocked.insert(blocked.end(), {h, s, w, s});
  const at::Tensor x = t.to(at::kDouble).clamp(-kLargestT, kLargestT).reshape(blocked);
  const at::Tensor plus = x.exp().mean(at::IntArrayRef{-3, -1}, true),
                   minus = (-x).exp().mean(at::IntArrayRef{-3, -1}, true);
  const at::Tensor target = q.to(at::kDouble).view({h, 1, w, 1});
  // u = exp(d), the positive root, without cancellation on either side of zero.
  const at::Tensor root = (target.square() + plus * minus).sqrt();
  const at::Tensor u = at::where(target >= 0, (target + root) / plus, minus / (root - target));
  return (x + u.log()).reshape(shape);
}

}  // namespace cirrus::kernels::reference
