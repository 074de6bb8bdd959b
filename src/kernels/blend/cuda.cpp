// The sum of windows on CUDA tensors, and its entry in torch's dispatcher.
#include <torch/library.h>

#include <limits>

#include "device/cuda/tensors.h"
#include "kernels/blend/cuda_places.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu.
void run_blend_windows(const Places& places, const float* windows, const float* row_weights,
                       const float* column_weights, float* field, std::int64_t height, std::int64_t width,
                       int window_height, int window_width, CudaStream stream);

void blend_windows(at::Tensor& field, const at::Tensor& windows_in, at::IntArrayRef members, at::IntArrayRef rows,
                   at::IntArrayRef columns, const at::Tensor& row_weights, const at::Tensor& column_weights) {
  const Launching on(field);
  const at::Tensor windows = windows_in.contiguous(), down = row_weights.contiguous(),
                   across = column_weights.contiguous();
  const std::int64_t height = field.size(2), width = field.size(3), th = windows.size(2), tw = windows.size(3);
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 2;
  TORCH_CHECK(field.is_contiguous() && field.size(0) < kMost && height < kMost && width < kMost,
              "blend_windows: field ", field.sizes());
  for (std::size_t begin = 0; begin < members.size(); begin += Places::kMost) {
    Places places{};
    for (std::size_t k = begin; k < members.size() && places.count < Places::kMost; ++k) {
      places.member[places.count] = static_cast<int>(members[k]);
      places.row[places.count] = static_cast<int>(rows[k]);
      places.column[places.count++] = static_cast<int>(columns[k]);
    }
    const std::int64_t first = static_cast<std::int64_t>(begin);
    run_blend_windows(places, windows.data_ptr<float>() + first * th * tw, down.data_ptr<float>() + first * th,
                      across.data_ptr<float>() + first * tw, field.data_ptr<float>(), height, width,
                      static_cast<int>(th), static_cast<int>(tw), on);
  }
  on.check();
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) { m.impl("blend_windows", blend_windows); }

}  // namespace cirrus::kernels::cuda
