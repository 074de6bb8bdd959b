// The projection of blocks as a CUDA kernel in float64: a few neighbouring lanes have one block.
#include "device/cuda/launch.cuh"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

/// NaN stays NaN, as in at::clamp.
__device__ double clamped(double t, double largest) { return t < -largest ? -largest : (t > largest ? largest : t); }

/// t, out: maps * height rows of width blocks of s x s pixels; q: height x width.
__global__ void __launch_bounds__(kThreads)
    project(const double* t, const double* q, double* out, std::int64_t maps, std::int64_t height, std::int64_t width,
            std::int64_t s, double largest, int lanes) {
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes,
            groups = kThreads / lanes;
  const std::int64_t all = maps * height * width, line = s * width;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * groups; first < all;
       first += static_cast<std::int64_t>(gridDim.x) * groups) {
    const std::int64_t block = first + group;
    const bool inside = block < all;
    const std::int64_t row = inside ? block / width : 0, column = inside ? block % width : 0,
                       at = row * s * line + column * s;
    double plus = 0, minus = 0;
    if (inside)
      for (std::int64_t y = 0; y < s; ++y)
        for (std::int64_t x = lane; x < s; x += lanes) {
          const double e = exp(clamped(t[at + y * line + x], largest));
          plus += e;
          minus += 1 / e;
        }
    plus = sum_over_lanes(plus, lanes) / static_cast<double>(s * s);
    minus = sum_over_lanes(minus, lanes) / static_cast<double>(s * s);
    if (!inside) continue;
    const double target = q[row % height * width + column];
    // The positive root, without cancellation on either side of zero.
    const double root = sqrt(target * target + plus * minus);
    const double shift = log(target >= 0 ? (target + root) / plus : minus / (root - target));
    for (std::int64_t y = 0; y < s; ++y)
      for (std::int64_t x = lane; x < s; x += lanes)
        out[at + y * line + x] = clamped(t[at + y * line + x], largest) + shift;
  }
}

}  // namespace

void run_project_blocks(const double* t, const double* q, double* out, std::int64_t maps, std::int64_t height,
                        std::int64_t width, std::int64_t s, double largest, CudaStream stream) {
  if (maps * height * width == 0) return;
  int lanes = 1;
  while (lanes < 32 && lanes < s) lanes *= 2;
  launch(project, blocks(divided_up(maps * height * width, kThreads / lanes)), kThreads, stream, t, q, out, maps,
         height, width, s, largest, lanes);
}

}  // namespace cirrus::kernels::cuda
