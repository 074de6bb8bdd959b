// Phases in their places as CUDA kernels: one pass over fine pixels each way. Fine pixel (y, x) takes phase (y % 2, x %
// 2) of the convolution's place (y / 2 + y % 2, x / 2 + x % 2).
#include "kernels/activation/cuda_gradient.cuh"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

/// Where in the phases [N, h + 1, w + 1, 4, channels] those of pixel `r` of sample n begin; width: 2 w, of fine lines.
__device__ std::int64_t phase_at(std::int64_t n, std::int64_t r, std::int64_t lines, std::int64_t width,
                                 std::int64_t channels) {
  const auto y = static_cast<std::uint32_t>(r) / static_cast<std::uint32_t>(width),
             x = static_cast<std::uint32_t>(r) - y * static_cast<std::uint32_t>(width), py = y & 1u, px = x & 1u;
  const std::int64_t place = (n * (lines / 2 + 1) + (y / 2 + py)) * (width / 2 + 1) + (x / 2 + px);
  return (4 * place + (2 * py + px)) * channels;
}

template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    phase_join(const T* phases, const T* fine, const float* scale, T* y, T* sum, std::int64_t samples,
               std::int64_t lines, std::int64_t width, std::int64_t channels) {
  const std::int64_t rows = lines * width;
  for (std::int64_t n = blockIdx.y; n < samples; n += gridDim.y)
    for (std::int64_t j = threadIdx.x * V; j < channels; j += blockDim.x * V) {
      const Values<V> s = load<V>(scale + n * channels + j);
      for (std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; r < rows;
           r += static_cast<std::int64_t>(gridDim.x) * blockDim.y) {
        const std::int64_t at = (n * rows + r) * channels + j;
        const Values<V> p = load<V>(phases + phase_at(n, r, lines, width, channels) + j), f = load<V>(fine + at),
                        v = each<V>([&](int k) { return p.v[k] + f.v[k]; });
        store<V>(sum + at, v);
        store<V>(y + at, each<V>([&](int k) { return hardswish(v.v[k] * s.v[k]); }));
      }
    }
}

/// The gradient of the sum, to fine and to its place in dphases, and the parts that make dscale.
template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    phase_join_backward(const T* sum, const float* scale, const T* g, T* dphases, T* dfine, float* parts,
                        std::int64_t samples, std::int64_t lines, std::int64_t width, std::int64_t channels) {
  const std::int64_t rows = lines * width;
  scale_act_gradient<V>(sum, scale, g, parts, samples, rows, channels,
                        [&](std::int64_t n, std::int64_t r, std::int64_t j, const Values<V>& d) {
                          store<V>(dfine + (n * rows + r) * channels + j, d);
                          store<V>(dphases + phase_at(n, r, lines, width, channels) + j, d);
                        });
}

}  // namespace

void run_phase_join(Element type, bool wide, const void* phases, const void* fine, const float* scale, void* y,
                    void* sum, std::int64_t samples, std::int64_t lines, std::int64_t width, std::int64_t channels,
                    CudaStream stream) {
  if (samples * lines * width * channels == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto v) {
    const dim3 block = block_for_rows(channels / v(), lines * width);
    const std::int64_t in_flight = std::max<std::int64_t>(4096 / samples, 1);  // blocks a sample, to keep scales longer
    launch(phase_join<v(), T>,
           dim3(blocks(std::min(divided_up(lines * width, block.y), in_flight)), blocks_across(samples)), block, stream,
           static_cast<const T*>(phases), static_cast<const T*>(fine), scale, static_cast<T*>(y), static_cast<T*>(sum),
           samples, lines, width, channels);
  });
}

void run_phase_join_backward(Element type, bool wide, const void* sum, const float* scale, const void* g, void* dphases,
                             void* dfine, float* dscale, float* parts, std::int64_t count, std::int64_t samples,
                             std::int64_t lines, std::int64_t width, std::int64_t channels, CudaStream stream) {
  if (samples * channels == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto v) {
    launch(phase_join_backward<v(), T>, dim3(static_cast<unsigned>(count), blocks_across(samples)),
           block_for_rows(channels / v(), lines * width), stream, static_cast<const T*>(sum), scale,
           static_cast<const T*>(g), static_cast<T*>(dphases), static_cast<T*>(dfine), count == 1 ? dscale : parts,
           samples, lines, width, channels);
  });
  if (count > 1) add_up(parts, dscale, samples, count, channels, stream);
}

}  // namespace cirrus::kernels::cuda
