// The sum of windows as a CUDA kernel without atomics: a pixel that several windows cover is the business of the first
// of them, whose thread adds all of them in their order.
#include "device/cuda/launch.cuh"
#include "kernels/blend/cuda_places.h"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

constexpr int kPixels = 32, kLines = 8;  // of a block

__global__ void __launch_bounds__(kThreads)
    blend(const __grid_constant__ Places places, const float* windows, const float* row_weights,
          const float* column_weights, float* field, std::int64_t height, std::int64_t width, int window_height,
          int window_width) {
  for (int k = static_cast<int>(blockIdx.z); k < places.count; k += static_cast<int>(gridDim.z))
    for (int i = static_cast<int>(blockIdx.y * kLines + threadIdx.y); i < window_height;
         i += static_cast<int>(gridDim.y) * kLines)
      for (int j = static_cast<int>(blockIdx.x * kPixels + threadIdx.x); j < window_width;
           j += static_cast<int>(gridDim.x) * kPixels) {
        const int member = places.member[k], y = places.row[k] + i, x = places.column[k] + j;
        const auto covers = [&](int other) {
          return places.member[other] == member &&
                 static_cast<unsigned>(y - places.row[other]) < static_cast<unsigned>(window_height) &&
                 static_cast<unsigned>(x - places.column[other]) < static_cast<unsigned>(window_width);
        };
        bool taken = false;
        for (int other = 0; other < k && !taken; ++other) taken = covers(other);
        if (taken) continue;
        float* pixel = field + (member * height + y) * width + x;
        float sum = *pixel;
        for (int other = k; other < places.count; ++other)
          if (covers(other)) {
            const std::int64_t line = static_cast<std::int64_t>(other) * window_height + (y - places.row[other]),
                               at = x - places.column[other];
            sum += windows[line * window_width + at] *
                   (row_weights[line] * column_weights[static_cast<std::int64_t>(other) * window_width + at]);
          }
        *pixel = sum;
      }
}

}  // namespace

void run_blend_windows(const Places& places, const float* windows, const float* row_weights,
                       const float* column_weights, float* field, std::int64_t height, std::int64_t width,
                       int window_height, int window_width, CudaStream stream) {
  if (places.count == 0 || window_height == 0 || window_width == 0) return;
  const dim3 grid(blocks(divided_up(window_width, kPixels)), blocks_across(divided_up(window_height, kLines)),
                  blocks_across(places.count));
  launch(blend, grid, dim3(kPixels, kLines), stream, places, windows, row_weights, column_weights, field, height, width,
         window_height, window_width);
}

}  // namespace cirrus::kernels::cuda
