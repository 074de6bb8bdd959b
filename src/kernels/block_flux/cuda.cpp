// The projection of blocks on CUDA tensors, and its entry in torch's dispatcher.
#include "kernels/block_flux.h"

#include <torch/library.h>

#include "device/cuda/tensors.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu.
void run_project_blocks(const double* t, const double* q, double* out, std::int64_t maps, std::int64_t height,
                        std::int64_t width, std::int64_t s, double largest, CudaStream stream);

at::Tensor project_blocks(const at::Tensor& t_in, const at::Tensor& q_in, std::int64_t s) {
  const Launching on(t_in);
  const at::Tensor t = t_in.to(at::kDouble).contiguous(), q = q_in.to(at::kDouble).contiguous(),
                   out = at::empty_like(t, at::MemoryFormat::Contiguous);
  const std::int64_t height = q.size(0), width = q.size(1);
  run_project_blocks(t.data_ptr<double>(), q.data_ptr<double>(), out.data_ptr<double>(),
                     t.numel() / std::max<std::int64_t>(1, s * s * height * width), height, width, s, kLargestT, on);
  on.check();
  return out;
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) { m.impl("project_blocks", project_blocks); }

}  // namespace cirrus::kernels::cuda
