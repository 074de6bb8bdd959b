// Addressed dropout on CUDA tensors, and its entry in torch's dispatcher.
#include <torch/library.h>

#include "device/cuda/tensors.h"
#include "kernels/dropout.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu.
void run_dropout(Element type, const void* x, void* y, const std::int64_t* items, std::uint64_t seed,
                 std::uint32_t layer, std::uint32_t threshold, float scale, std::int64_t samples, std::int64_t values,
                 bool is_aligned, CudaStream stream);

at::Tensor dropout(const at::Tensor& input, double p, std::int64_t seed, const at::Tensor& samples,
                   std::int64_t layer) {
  const Launching on(input);
  const at::Tensor x = channels_last(input), y = like_channels_last(x), items = samples.contiguous();
  run_dropout(element_of(x), x.data_ptr(), y.data_ptr(), items.data_ptr<std::int64_t>(),
              static_cast<std::uint64_t>(seed), static_cast<std::uint32_t>(layer), dropout_threshold(p),
              static_cast<float>(1 / (1 - p)), x.size(0), x.numel() / std::max<std::int64_t>(1, x.size(0)),
              aligned({x, y}), on);
  on.check();
  return y;
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) { m.impl("dropout", dropout); }

}  // namespace cirrus::kernels::cuda
