// The decoder's join as CUDA kernels. A line of coarse pixels lies under one line (factor 1) or two lines (factor 2) of
// fine ones: line r of the fine tensor belongs to line r / factor of the coarse one, whatever the sample.
#include "device/cuda/launch.cuh"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

/// Lines and pixels of a grid: threads y and blocks x over a line's pixels, blocks y over lines, threads x over
/// channels.
template <typename F>
__device__ void each_pixel(std::int64_t lines, std::int64_t width, F&& f) {
  for (std::int64_t r = blockIdx.y; r < lines; r += gridDim.y)
    for (std::int64_t x = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; x < width;
         x += static_cast<std::int64_t>(gridDim.x) * blockDim.y)
      f(r, x);
}

template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    cat_act(const T* coarse, const T* fine, T* y, std::int64_t lines, std::int64_t width, int factor, std::int64_t ca,
            std::int64_t cb, float wa, float wb) {
  const int shift = factor - 1;
  const std::int64_t coarse_width = width >> shift;
  each_pixel(lines, width, [&](std::int64_t r, std::int64_t x) {
    const T *a = coarse + ((r >> shift) * coarse_width + (x >> shift)) * ca, *b = fine + (r * width + x) * cb;
    T* o = y + (r * width + x) * (ca + cb);
    for (std::int64_t j = threadIdx.x * V; j < ca + cb; j += blockDim.x * V) {
      const bool first = j < ca;
      const Values<V> v = load<V>(first ? a + j : b + (j - ca));
      const float w = first ? wa : wb;
      store<V>(o + j, each<V>([&](int k) { return hardswish(v.v[k] * w); }));
    }
  });
}

/// Over coarse pixels: line r, pixel x covers fine lines r * factor + dy, pixels x * factor + dx.
template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    cat_act_backward(const T* coarse, const T* fine, const T* g, T* dcoarse, T* dfine, std::int64_t lines,
                     std::int64_t width, int factor, std::int64_t ca, std::int64_t cb, float wa, float wb) {
  each_pixel(lines, width, [&](std::int64_t r, std::int64_t x) {
    const std::int64_t at = r * width + x;
    for (std::int64_t j = threadIdx.x * V; j < ca + cb; j += blockDim.x * V) {
      Values<V> sum{};
      for (int i = 0; i < factor * factor; ++i) {
        const std::int64_t pixel = (r * factor + i / factor) * (width * factor) + x * factor + i % factor;
        const Values<V> d = load<V>(g + pixel * (ca + cb) + j);
        if (j < ca) {
#pragma unroll
          for (int k = 0; k < V; ++k) sum.v[k] += d.v[k];
        } else {
          const std::int64_t to = pixel * cb + (j - ca);
          const Values<V> v = load<V>(fine + to);
          store<V>(dfine + to, each<V>([&](int k) { return d.v[k] * hardswish_slope(v.v[k] * wb) * wb; }));
        }
      }
      if (j < ca) {
        const Values<V> v = load<V>(coarse + at * ca + j);
        store<V>(dcoarse + at * ca + j, each<V>([&](int k) { return sum.v[k] * hardswish_slope(v.v[k] * wa) * wa; }));
      }
    }
  });
}

template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    weighted_sum(const T* coarse, const T* fine, const T* other, T* y, std::int64_t lines, std::int64_t width,
                 int factor, std::int64_t channels, float kc, float kf, float ko) {
  const int shift = factor - 1;
  const std::int64_t coarse_width = width >> shift;
  each_pixel(lines, width, [&](std::int64_t r, std::int64_t x) {
    const std::int64_t from = ((r >> shift) * coarse_width + (x >> shift)) * channels, at = (r * width + x) * channels;
    for (std::int64_t j = threadIdx.x * V; j < channels; j += blockDim.x * V) {
      const Values<V> a = load<V>(coarse + from + j), b = load<V>(fine + at + j), c = load<V>(other + at + j);
      store<V>(y + at + j, each<V>([&](int k) { return a.v[k] * kc + b.v[k] * kf + c.v[k] * ko; }));
    }
  });
}

/// Over coarse pixels, as cat_act_backward.
template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    weighted_sum_backward(const T* g, T* dcoarse, T* dfine, T* dother, std::int64_t lines, std::int64_t width,
                          int factor, std::int64_t channels, float kc, float kf, float ko) {
  each_pixel(lines, width, [&](std::int64_t r, std::int64_t x) {
    for (std::int64_t j = threadIdx.x * V; j < channels; j += blockDim.x * V) {
      Values<V> sum{};
      for (int i = 0; i < factor * factor; ++i) {
        const std::int64_t pixel = (r * factor + i / factor) * (width * factor) + x * factor + i % factor,
                           at = pixel * channels + j;
        const Values<V> d = load<V>(g + at);
#pragma unroll
        for (int k = 0; k < V; ++k) sum.v[k] += d.v[k];
        store<V>(dfine + at, each<V>([&](int k) { return d.v[k] * kf; }));
        store<V>(dother + at, each<V>([&](int k) { return d.v[k] * ko; }));
      }
      store<V>(dcoarse + (r * width + x) * channels + j, each<V>([&](int k) { return sum.v[k] * kc; }));
    }
  });
}

struct Shape {
  dim3 grid, block;
};
Shape shape_for(std::int64_t lines, std::int64_t width, std::int64_t pieces) {
  const dim3 block = block_for_rows(pieces, width);
  return {dim3(blocks(divided_up(width, block.y)), blocks_across(lines)), block};
}

}  // namespace

void run_cat_act(Element type, bool wide, const void* coarse, const void* fine, void* y, std::int64_t lines,
                 std::int64_t width, int factor, std::int64_t ca, std::int64_t cb, float wa, float wb,
                 CudaStream stream) {
  if (lines * width * (ca + cb) == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto v) {
    const Shape s = shape_for(lines, width, (ca + cb) / v());
    launch(cat_act<v(), T>, s.grid, s.block, stream, static_cast<const T*>(coarse), static_cast<const T*>(fine),
           static_cast<T*>(y), lines, width, factor, ca, cb, wa, wb);
  });
}

void run_cat_act_backward(Element type, bool wide, const void* coarse, const void* fine, const void* g, void* dcoarse,
                          void* dfine, std::int64_t lines, std::int64_t width, int factor, std::int64_t ca,
                          std::int64_t cb, float wa, float wb, CudaStream stream) {
  if (lines * width * (ca + cb) == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto v) {
    const Shape s = shape_for(lines, width, (ca + cb) / v());
    launch(cat_act_backward<v(), T>, s.grid, s.block, stream, static_cast<const T*>(coarse),
           static_cast<const T*>(fine), static_cast<const T*>(g), static_cast<T*>(dcoarse), static_cast<T*>(dfine),
           lines, width, factor, ca, cb, wa, wb);
  });
}

void run_upsample_sum(Element type, bool wide, const void* coarse, const void* fine, const void* other, void* y,
                      std::int64_t lines, std::int64_t width, int factor, std::int64_t channels, float kc, float kf,
                      float ko, CudaStream stream) {
  if (lines * width * channels == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto v) {
    const Shape s = shape_for(lines, width, channels / v());
    launch(weighted_sum<v(), T>, s.grid, s.block, stream, static_cast<const T*>(coarse), static_cast<const T*>(fine),
           static_cast<const T*>(other), static_cast<T*>(y), lines, width, factor, channels, kc, kf, ko);
  });
}

void run_upsample_sum_backward(Element type, bool wide, const void* g, void* dcoarse, void* dfine, void* dother,
                               std::int64_t lines, std::int64_t width, int factor, std::int64_t channels, float kc,
                               float kf, float ko, CudaStream stream) {
  if (lines * width * channels == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto v) {
    const Shape s = shape_for(lines, width, channels / v());
    launch(weighted_sum_backward<v(), T>, s.grid, s.block, stream, static_cast<const T*>(g), static_cast<T*>(dcoarse),
           static_cast<T*>(dfine), static_cast<T*>(dother), lines, width, factor, channels, kc, kf, ko);
  });
}

}  // namespace cirrus::kernels::cuda
