// Attention as products and a softmax.
#include "kernels/attention.h"

#include <cmath>

namespace cirrus::kernels::reference {

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const at::ScalarType wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor share = at::softmax(at::matmul(q * scale, k.transpose(-2, -1)), -1, wide);
  return at::matmul(share.to(v.scalar_type()), v);
}

}  // namespace cirrus::kernels::reference
