// The projection of blocks: checks, and its entry in torch's dispatcher.
#include "kernels/block_flux.h"

#include <torch/library.h>

#include "kernels/dispatch.h"

namespace cirrus::kernels {
namespace cpu {
at::Tensor project_blocks(const at::Tensor& t, const at::Tensor& q, std::int64_t factor);
}

namespace {

TORCH_LIBRARY_FRAGMENT(cirrus, m) { m.def("project_blocks(Tensor t, Tensor q, int factor) -> Tensor"); }
TORCH_LIBRARY_IMPL(cirrus, CPU, m) { m.impl("project_blocks", cpu::project_blocks); }

}  // namespace

at::Tensor project_blocks(const at::Tensor& t, const at::Tensor& q, std::int64_t factor) {
  static const FusedOperator<decltype(cpu::project_blocks)> kernel("cirrus::project_blocks");
  TORCH_CHECK(t.dim() >= 2 && q.dim() == 2 && factor > 0 && t.size(-2) == factor * q.size(0) &&
                  t.size(-1) == factor * q.size(1),
              "project_blocks: ", t.sizes(), " in blocks of ", factor, " for ", q.sizes());
  return kernel.on_device_of(t) ? kernel(t.to(at::kDouble).contiguous(), q.to(at::kDouble).contiguous(), factor)
                                : reference::project_blocks(t, q, factor);
}

}  // namespace cirrus::kernels
