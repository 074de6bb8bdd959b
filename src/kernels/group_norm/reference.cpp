// Group normalisation as ATen operators.
#include "kernels/group_norm.h"

namespace cirrus::kernels::reference {

at::Tensor group_norm(const at::Tensor& x, std::int64_t groups, const at::Tensor& weight, const at::Tensor& bias,
                      bool silu, double eps) {
  const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor grouped = x.to(wide).reshape({x.size(0), groups, -1});
  const at::Tensor centred = grouped - grouped.mean(2, true);
  const at::Tensor normalised = (centred * (centred.square().mean(2, true) + eps).rsqrt()).reshape(x.sizes());
  const at::Tensor y = normalised * weight.to(wide).view({1, -1, 1, 1}) + bias.to(wide).view({1, -1, 1, 1});
  return (silu ? at::silu(y) : y).to(x.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace cirrus::kernels::reference
