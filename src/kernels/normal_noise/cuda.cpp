// Addressed noise on CUDA tensors, and its entry in torch's dispatcher.
#include <torch/library.h>

#include "base/random.h"
#include "device/cuda/tensors.h"
#include "kernels/normal_noise/cuda_items.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu.
void run_fill_normal(const Items& items, float* out, std::uint64_t seed, Purpose purpose, std::uint32_t step,
                     std::int64_t y0, std::int64_t x0, std::int64_t height, std::int64_t width, bool wide,
                     CudaStream stream);

void fill_normal(at::Tensor& out, std::int64_t seed, std::int64_t purpose, at::IntArrayRef items, std::int64_t step,
                 std::int64_t y0, std::int64_t x0) {
  const Launching on(out);
  TORCH_CHECK(
      out.scalar_type() == at::kFloat && out.is_contiguous() && out.size(0) == static_cast<std::int64_t>(items.size()),
      "fill_normal: ", out.toString(), out.sizes(), " for ", items.size(), " samples");
  const std::int64_t height = out.size(-2), width = out.size(-1);
  const bool wide = x0 % 4 == 0 && width % 4 == 0 && aligned({out});
  for (std::size_t begin = 0; begin < items.size(); begin += Items::kMost) {
    Items part{};
    for (std::size_t i = begin; i < items.size() && part.count < Items::kMost; ++i)
      part.item[part.count++] = static_cast<std::uint64_t>(items[i]);
    run_fill_normal(part, out.data_ptr<float>() + static_cast<std::int64_t>(begin) * height * width,
                    static_cast<std::uint64_t>(seed), static_cast<Purpose>(purpose), static_cast<std::uint32_t>(step),
                    y0, x0, height, width, wide, on);
  }
  on.check();
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) { m.impl("fill_normal", fill_normal); }

}  // namespace cirrus::kernels::cuda
