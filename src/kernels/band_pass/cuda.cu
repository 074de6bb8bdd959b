// The band-pass cascade as one CUDA kernel: a block has a tile of pixels and its surroundings in shared memory, blurs
// it down columns with all three Gaussians, then along lines, and writes the differences.
#include "device/cuda/launch.cuh"
#include "kernels/band_pass/cuda_weights.h"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

constexpr int kTile = 32, kReach = BlurWeights::kMostReach, kAround = kTile + 2 * kReach;

__global__ void __launch_bounds__(kThreads)
    band_pass(const float* x, float* out, const __grid_constant__ BlurWeights weights, std::int64_t samples,
              std::int64_t height, std::int64_t width) {
  __shared__ float source[kAround][kAround], columns[kTile][kAround];
  const std::int64_t y0 = static_cast<std::int64_t>(blockIdx.y) * kTile,
                     x0 = static_cast<std::int64_t>(blockIdx.x) * kTile, plane = height * width;
  for (std::int64_t n = blockIdx.z; n < samples; n += gridDim.z) {
    __syncthreads();  // the last sample's tile has been used
    for (int i = static_cast<int>(threadIdx.x); i < kAround * kAround; i += kThreads) {
      const int r = i / kAround, c = i % kAround;
      const std::int64_t y = y0 + r - kReach, xx = x0 + c - kReach;
      source[r][c] = y >= 0 && y < height && xx >= 0 && xx < width ? x[n * plane + y * width + xx] : 0.f;
    }
    // The thread's pixels: column threadIdx.x % 32 of lines threadIdx.x / 32, + 8, + 16, + 24.
    const int c = static_cast<int>(threadIdx.x) % kTile, first = static_cast<int>(threadIdx.x) / kTile;
    constexpr int kEach = kTile * kTile / kThreads;
    float last[kEach];  // of the cascade: x, G1 x, G2 x, ...
    __syncthreads();
    for (int k = 0; k < kEach; ++k) last[k] = source[first + k * (kThreads / kTile) + kReach][c + kReach];
    for (int band = 0; band < 3; ++band) {
      const int reach = weights.reach[band];
      const float* w = weights.taps[band];
      __syncthreads();  // the last band's columns have been used
      for (int i = static_cast<int>(threadIdx.x); i < kTile * kAround; i += kThreads) {
        const int r = i / kAround, at = i % kAround;
        float sum = 0.f;
        for (int t = -reach; t <= reach; ++t) sum += w[t + reach] * source[r + kReach + t][at];
        columns[r][at] = sum;
      }
      __syncthreads();
      for (int k = 0; k < kEach; ++k) {
        const int r = first + k * (kThreads / kTile);
        float sum = 0.f;
        for (int t = -reach; t <= reach; ++t) sum += w[t + reach] * columns[r][c + kReach + t];
        if (y0 + r < height && x0 + c < width) {
          float* to = out + 4 * n * plane + (y0 + r) * width + x0 + c;
          to[band * plane] = last[k] - sum;
          if (band == 2) to[3 * plane] = sum;
        }
        last[k] = sum;
      }
    }
  }
}

}  // namespace

void run_band_pass(const float* x, float* out, const BlurWeights& weights, std::int64_t samples, std::int64_t height,
                   std::int64_t width, CudaStream stream) {
  if (samples * height * width == 0) return;
  launch(band_pass,
         dim3(static_cast<unsigned>(divided_up(width, kTile)), static_cast<unsigned>(divided_up(height, kTile)),
              blocks_across(samples)),
         kThreads, stream, x, out, weights, samples, height, width);
}

}  // namespace cirrus::kernels::cuda
