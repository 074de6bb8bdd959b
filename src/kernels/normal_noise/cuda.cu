// Addressed noise as a CUDA kernel: a thread makes one Philox block, four pixels of a line, of base/random.h's own
// words.
#include "base/random.h"
#include "device/cuda/launch.cuh"
#include "kernels/normal_noise/cuda_items.h"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

constexpr int kBlocks = 32, kLines = 8;  // Philox blocks of a line and lines of a thread block

/// normal_pair of base/random.h to float32's accuracy, also near u = 1 and everywhere on the circle.
__device__ float2 normal_pair(std::uint32_t a, std::uint32_t b) {
  constexpr float kStep = 1.f / 4294967296.f;
  const float u = (static_cast<float>(a) + 0.5f) * kStep,
              rest = (static_cast<float>(~a) + 0.5f) * kStep;  // rest: 1 - u
  const float radius = sqrtf(-2.f * (a < 0x80000000u ? logf(u) : log1pf(-rest)));
  const std::uint32_t quadrant = (b + 0x20000000u) >> 30;
  const std::int32_t turn = static_cast<std::int32_t>(b - (quadrant << 30));  // in [-2^29, 2^29)
  float sine, cosine;
  sincospif(2.f * ((static_cast<float>(turn) + 0.5f) * kStep), &sine, &cosine);
  sine *= radius;
  cosine *= radius;
  switch (quadrant) {
    case 0:
      return make_float2(cosine, sine);
    case 1:
      return make_float2(-sine, cosine);
    case 2:
      return make_float2(-cosine, -sine);
    default:
      return make_float2(sine, -cosine);
  }
}

__global__ void __launch_bounds__(kThreads)
    fill_normal(const __grid_constant__ Items items, float* out, std::uint64_t seed, Purpose purpose,
                std::uint32_t step, std::int64_t y0, std::int64_t x0, std::int64_t height, std::int64_t width,
                bool wide) {
  const std::int64_t first = x0 >> 2, blocks = ((x0 + width + 3) >> 2) - first, lines = items.count * height;
  for (std::int64_t r = static_cast<std::int64_t>(blockIdx.y) * kLines + threadIdx.y; r < lines;
       r += static_cast<std::int64_t>(gridDim.y) * kLines) {
    const std::int64_t n = r / height, y = y0 + (r - n * height);
    const Address address(seed, purpose, items.item[n], step);
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlocks + threadIdx.x; i < blocks;
         i += static_cast<std::int64_t>(gridDim.x) * kBlocks) {
      const auto words = address.block((static_cast<std::uint64_t>(y) << 32) | static_cast<std::uint64_t>(first + i));
      const float2 p = normal_pair(words[0], words[1]), q = normal_pair(words[2], words[3]);
      const Values<4> v{{p.x, p.y, q.x, q.y}};
      const std::int64_t x = 4 * (first + i) - x0;  // of the first of them, in the window
      float* line = out + r * width;
      if (wide) {
        store<4>(line + x, v);
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (x + k >= 0 && x + k < width) line[x + k] = v.v[k];
      }
    }
  }
}

}  // namespace

void run_fill_normal(const Items& items, float* out, std::uint64_t seed, Purpose purpose, std::uint32_t step,
                     std::int64_t y0, std::int64_t x0, std::int64_t height, std::int64_t width, bool wide,
                     CudaStream stream) {
  if (items.count * height * width == 0) return;
  const dim3 grid(blocks(divided_up(width / 4 + 2, kBlocks)), blocks_across(divided_up(items.count * height, kLines)));
  launch(fill_normal, grid, dim3(kBlocks, kLines), stream, items, out, seed, purpose, step, y0, x0, height, width,
         wide);
}

}  // namespace cirrus::kernels::cuda
