// The pointwise network operators as CUDA kernels: one pass over channels-last activations each way, 16 bytes an
// access.
#include "kernels/activation/cuda_gradient.cuh"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

template <typename T>
struct Act {
  const T* x;
  T* y;
  template <int V>
  __device__ void at(std::int64_t i) const {
    const Values<V> a = load<V>(x + i);
    store<V>(y + i, each<V>([&](int k) { return hardswish(a.v[k]); }));
  }
};

template <typename T>
struct ActBackward {
  const T *x, *g;
  T* dx;
  template <int V>
  __device__ void at(std::int64_t i) const {
    const Values<V> a = load<V>(x + i), b = load<V>(g + i);
    store<V>(dx + i, each<V>([&](int k) { return b.v[k] * hardswish_slope(a.v[k]); }));
  }
};

template <typename T>
struct WeightedSum {
  const T *a, *b;
  T* y;
  float wa, wb;
  template <int V>
  __device__ void at(std::int64_t i) const {
    const Values<V> p = load<V>(a + i), q = load<V>(b + i);
    store<V>(y + i, each<V>([&](int k) { return p.v[k] * wa + q.v[k] * wb; }));
  }
};

template <typename T>
struct WeightedCopies {
  const T* g;
  T *da, *db;
  float wa, wb;
  template <int V>
  __device__ void at(std::int64_t i) const {
    const Values<V> p = load<V>(g + i);
    store<V>(da + i, each<V>([&](int k) { return p.v[k] * wa; }));
    store<V>(db + i, each<V>([&](int k) { return p.v[k] * wb; }));
  }
};

/// Rows [0, rows) of `channels` values of each sample; a thread keeps its channels' scales.
template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    scale_act(const T* x, const float* scale, T* y, std::int64_t samples, std::int64_t rows, std::int64_t channels) {
  for (std::int64_t n = blockIdx.y; n < samples; n += gridDim.y)
    for (std::int64_t j = threadIdx.x * V; j < channels; j += blockDim.x * V) {
      const Values<V> s = load<V>(scale + n * channels + j);
      for (std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; r < rows;
           r += static_cast<std::int64_t>(gridDim.x) * blockDim.y) {
        const std::int64_t at = (n * rows + r) * channels + j;
        const Values<V> a = load<V>(x + at);
        store<V>(y + at, each<V>([&](int k) { return hardswish(a.v[k] * s.v[k]); }));
      }
    }
}

/// dx, and the parts that make dscale.
template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    scale_act_backward(const T* x, const float* scale, const T* g, T* dx, float* parts, std::int64_t samples,
                       std::int64_t rows, std::int64_t channels) {
  scale_act_gradient<V>(x, scale, g, parts, samples, rows, channels,
                        [&](std::int64_t n, std::int64_t r, std::int64_t j, const Values<V>& d) {
                          store<V>(dx + (n * rows + r) * channels + j, d);
                        });
}

/// Rows of `channels` values, each by `lanes` lanes of a warp.
template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    pixel_norm_act(const T* x, T* normalised, T* y, float* inv, std::int64_t rows, std::int64_t channels, int lanes,
                   float epsilon) {
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes,
            groups = kThreads / lanes;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * groups; first < rows;
       first += static_cast<std::int64_t>(gridDim.x) * groups) {
    const std::int64_t row = first + group, at = row * channels;
    const bool inside = row < rows;
    float square = 0.f;
    if (inside)
      for (std::int64_t j = lane * V; j < channels; j += lanes * V) {
        const Values<V> a = load<V>(x + at + j);
#pragma unroll
        for (int k = 0; k < V; ++k) square += a.v[k] * a.v[k];
      }
    square = sum_over_lanes(square, lanes);
    if (!inside) continue;  // whole warps come back together: `first` is the same for all
    const float scale = 1.f / sqrtf(square / static_cast<float>(channels) + epsilon);
    if (lane == 0) inv[row] = scale;
    for (std::int64_t j = lane * V; j < channels; j += lanes * V) {
      const Values<V> a = load<V>(x + at + j), b = each<V>([&](int k) { return a.v[k] * scale; });
      store<V>(normalised + at + j, b);
      store<V>(y + at + j, each<V>([&](int k) { return hardswish(b.v[k]); }));
    }
  }
}

template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    pixel_norm_act_backward(const T* normalised, const float* inv, const T* g_normalised, const T* g_act, T* dx,
                            std::int64_t rows, std::int64_t channels, int lanes) {
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes,
            groups = kThreads / lanes;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * groups; first < rows;
       first += static_cast<std::int64_t>(gridDim.x) * groups) {
    const std::int64_t row = first + group, at = row * channels;
    const bool inside = row < rows;
    const auto gradient = [&](std::int64_t j, const Values<V>& a) {
      const Values<V> b = load<V>(g_normalised + at + j), c = load<V>(g_act + at + j);
      return each<V>([&](int k) { return b.v[k] + c.v[k] * hardswish_slope(a.v[k]); });
    };
    float dot = 0.f;
    if (inside)
      for (std::int64_t j = lane * V; j < channels; j += lanes * V) {
        const Values<V> a = load<V>(normalised + at + j), g = gradient(j, a);
#pragma unroll
        for (int k = 0; k < V; ++k) dot += g.v[k] * a.v[k];
      }
    dot = sum_over_lanes(dot, lanes) / static_cast<float>(channels);
    if (!inside) continue;
    const float scale = inv[row];
    for (std::int64_t j = lane * V; j < channels; j += lanes * V) {
      const Values<V> a = load<V>(normalised + at + j), g = gradient(j, a);
      store<V>(dx + at + j, each<V>([&](int k) { return scale * (g.v[k] - a.v[k] * dot); }));
    }
  }
}

/// Lanes that share a row of so many accesses.
int lanes_for(std::int64_t pieces) {
  int lanes = 1;
  while (lanes < 32 && lanes < pieces) lanes *= 2;
  return lanes;
}

}  // namespace

void run_act(Element type, bool wide, const void* x, void* y, std::int64_t n, CudaStream stream) {
  by_element_and_width(type, wide, [&]<typename T>(T*, auto width) {
    for_each_piece<width()>(n, stream, Act<T>{static_cast<const T*>(x), static_cast<T*>(y)});
  });
}

void run_act_backward(Element type, bool wide, const void* x, const void* g, void* dx, std::int64_t n,
                      CudaStream stream) {
  by_element_and_width(type, wide, [&]<typename T>(T*, auto width) {
    for_each_piece<width()>(n, stream,
                            ActBackward<T>{static_cast<const T*>(x), static_cast<const T*>(g), static_cast<T*>(dx)});
  });
}

void run_weighted_sum(Element type, bool wide, const void* a, const void* b, void* y, float wa, float wb,
                      std::int64_t n, CudaStream stream) {
  by_element_and_width(type, wide, [&]<typename T>(T*, auto width) {
    for_each_piece<width()>(
        n, stream, WeightedSum<T>{static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y), wa, wb});
  });
}

void run_weighted_copies(Element type, bool wide, const void* g, void* da, void* db, float wa, float wb, std::int64_t n,
                         CudaStream stream) {
  by_element_and_width(type, wide, [&]<typename T>(T*, auto width) {
    for_each_piece<width()>(
        n, stream, WeightedCopies<T>{static_cast<const T*>(g), static_cast<T*>(da), static_cast<T*>(db), wa, wb});
  });
}

void run_scale_act(Element type, bool wide, const void* x, const float* scale, void* y, std::int64_t samples,
                   std::int64_t rows, std::int64_t channels, CudaStream stream) {
  if (samples * rows * channels == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto width) {
    const dim3 block = block_for_rows(channels / width(), rows);
    const std::int64_t in_flight = std::max<std::int64_t>(4096 / samples, 1);  // blocks a sample, to keep scales longer
    const dim3 grid(blocks(std::min(divided_up(rows, block.y), in_flight)), blocks_across(samples));
    launch(scale_act<width(), T>, grid, block, stream, static_cast<const T*>(x), scale, static_cast<T*>(y), samples,
           rows, channels);
  });
}

void run_scale_act_backward(Element type, bool wide, const void* x, const float* scale, const void* g, void* dx,
                            float* dscale, float* parts, std::int64_t count, std::int64_t samples, std::int64_t rows,
                            std::int64_t channels, CudaStream stream) {
  if (samples * channels == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto width) {
    launch(scale_act_backward<width(), T>, dim3(static_cast<unsigned>(count), blocks_across(samples)),
           block_for_rows(channels / width(), rows), stream, static_cast<const T*>(x), scale, static_cast<const T*>(g),
           static_cast<T*>(dx), count == 1 ? dscale : parts, samples, rows, channels);
  });
  if (count > 1) add_up(parts, dscale, samples, count, channels, stream);
}

void run_pixel_norm_act(Element type, bool wide, const void* x, void* normalised, void* y, float* inv,
                        std::int64_t rows, std::int64_t channels, float epsilon, CudaStream stream) {
  if (rows * channels == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto width) {
    const int lanes = lanes_for(channels / width());
    launch(pixel_norm_act<width(), T>, blocks(divided_up(rows, kThreads / lanes)), kThreads, stream,
           static_cast<const T*>(x), static_cast<T*>(normalised), static_cast<T*>(y), inv, rows, channels, lanes,
           epsilon);
  });
}

void run_pixel_norm_act_backward(Element type, bool wide, const void* normalised, const float* inv,
                                 const void* g_normalised, const void* g_act, void* dx, std::int64_t rows,
                                 std::int64_t channels, CudaStream stream) {
  if (rows * channels == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto width) {
    const int lanes = lanes_for(channels / width());
    launch(pixel_norm_act_backward<width(), T>, blocks(divided_up(rows, kThreads / lanes)), kThreads, stream,
           static_cast<const T*>(normalised), inv, static_cast<const T*>(g_normalised), static_cast<const T*>(g_act),
           static_cast<T*>(dx), rows, channels, lanes);
  });
}

}  // namespace cirrus::kernels::cuda
