// The moving average of weights on CUDA tensors: all tensors in as few launches as their addresses fit into, and its
// entry in torch's dispatcher.
#include <torch/library.h>

#include <limits>

#include "device/cuda/tensors.h"
#include "kernels/average/cuda_pairs.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu.
void run_average_weights(const Pairs& pairs, const float* share, CudaStream stream);

void average_weights(at::TensorList averaged, at::TensorList weights, const at::Tensor& share) {
  if (averaged.empty()) return;
  const Launching on(averaged[0]);
  Pairs pairs{};
  const auto finish = [&] {
    if (pairs.count > 0) run_average_weights(pairs, share.data_ptr<float>(), on);
    pairs = {};
  };
  for (std::size_t k = 0; k < averaged.size(); ++k) {
    const at::Tensor &a = averaged[k], &w = weights[k];
    TORCH_CHECK(a.scalar_type() == at::kFloat && w.scalar_type() == at::kFloat && a.is_non_overlapping_and_dense() &&
                    a.sizes() == w.sizes() && a.strides() == w.strides(),
                "average_weights wants float32 laid out alike, got ", a.toString(), a.sizes(), " and ", w.toString(),
                w.sizes());
    if (a.numel() == 0) continue;
    const std::int64_t chunks = pairs.first_chunk[pairs.count] + (a.numel() + Pairs::kChunk - 1) / Pairs::kChunk;
    TORCH_CHECK(chunks < std::numeric_limits<int>::max() / 2, "average_weights: too many weights for one launch");
    const int i = pairs.count++;
    pairs.first_chunk[i + 1] = static_cast<int>(chunks);
    pairs.averaged[i] = a.data_ptr<float>();
    pairs.weights[i] = w.data_ptr<float>();
    pairs.values[i] = a.numel();
    if (pairs.count == Pairs::kMost) finish();
  }
  finish();
  on.check();
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) { m.impl("average_weights", average_weights); }

}  // namespace cirrus::kernels::cuda
