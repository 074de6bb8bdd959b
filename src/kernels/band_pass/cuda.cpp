// The band-pass cascade on CUDA tensors, and its entry in torch's dispatcher.
#include <torch/library.h>

#include "device/cuda/tensors.h"
#include "kernels/band_pass.h"
#include "kernels/band_pass/cuda_weights.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu.
void run_band_pass(const float* x, float* out, const BlurWeights& weights, std::int64_t samples, std::int64_t height,
                   std::int64_t width, CudaStream stream);

at::Tensor band_pass(const at::Tensor& input) {
  const Launching on(input);
  const at::Tensor x = input.contiguous(), out = at::empty({x.size(0), kBands, x.size(2), x.size(3)}, x.options());
  static_assert(kBands == 4 && kBandSigmas.size() == 3);
  BlurWeights weights{};
  for (std::size_t b = 0; b < 3; ++b) {
    const std::vector<float> taps = gaussian_weights(kBandSigmas[b]);
    weights.reach[b] = static_cast<int>(taps.size() / 2);
    TORCH_CHECK(weights.reach[b] <= BlurWeights::kMostReach, "band_pass: a blur reaches ", weights.reach[b], " pixels");
    std::copy(taps.begin(), taps.end(), weights.taps[b]);
  }
  TORCH_CHECK(x.size(2) <= 32 * 65535, "band_pass: ", x.size(2), " lines are too many");
  run_band_pass(x.data_ptr<float>(), out.data_ptr<float>(), weights, x.size(0), x.size(2), x.size(3), on);
  on.check();
  return out;
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) { m.impl("band_pass", band_pass); }

}  // namespace cirrus::kernels::cuda
