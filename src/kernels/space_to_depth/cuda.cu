// The network's two ends as CUDA kernels: a thread has one pixel at half resolution, which is two neighbours on each of
// two lines of every full-resolution plane.
#include "device/cuda/launch.cuh"
#include "kernels/space_to_depth/cuda_planes.h"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

constexpr int kPixels = 32, kLines = 8;  // of a block

/// Pixels 2 x and 2 x + 1 of a line, in one access where that is aligned.
__device__ float2 pair_at(const float* p, bool paired) {
  return paired ? *reinterpret_cast<const float2*>(p) : make_float2(p[0], p[1]);
}
__device__ void put_pair(float* p, float a, float b) { *reinterpret_cast<float2*>(p) = make_float2(a, b); }

/// Calls f(sample, line, pixel) for the grid's pixels of `samples` planes of lines x width at half resolution.
template <typename F>
__device__ void each_pixel(std::int64_t samples, std::int64_t lines, std::int64_t width, F&& f) {
  const std::int64_t all = samples * lines;
  for (std::int64_t r = static_cast<std::int64_t>(blockIdx.y) * kLines + threadIdx.y; r < all;
       r += static_cast<std::int64_t>(gridDim.y) * kLines) {
    const std::int64_t n = r / lines, y = r - n * lines;
    for (std::int64_t x = static_cast<std::int64_t>(blockIdx.x) * kPixels + threadIdx.x; x < width;
         x += static_cast<std::int64_t>(gridDim.x) * kPixels)
      f(n, y, x);
  }
}
dim3 grid_for(std::int64_t samples, std::int64_t lines, std::int64_t width) {
  return dim3(blocks(divided_up(width, kPixels)), blocks_across(divided_up(samples * lines, kLines)));
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    gather(Planes bands, const float* scales, Planes maps, T* out, std::int64_t samples, std::int64_t lines,
           std::int64_t width, bool paired) {
  const std::int64_t count = bands.count + maps.count + 1;
  each_pixel(samples, lines, width, [&](std::int64_t n, std::int64_t y, std::int64_t x) {
    T* to = out + ((n * lines + y) * width + x) * 4 * count;
    const auto take = [&](const float* plane, std::int64_t line, float scale) {
      const float2 upper = pair_at(plane, paired), lower = pair_at(plane + line, paired);
      store<4>(to, Values<4>{{upper.x * scale, upper.y * scale, lower.x * scale, lower.y * scale}});
      to += 4;
    };
    const float *band = bands.at(n, y, x), *map = maps.at(n, y, x);
    for (std::int64_t p = 0; p < bands.count; ++p)
      take(band + p * bands.plane, bands.line, scales[n * bands.count + p]);
    for (std::int64_t p = 0; p < maps.count; ++p) take(map + p * maps.plane, maps.line, 1.f);
    store<4>(to, Values<4>{{1.f, 1.f, 1.f, 1.f}});
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    spread(const T* head, const float* head_scale, Planes bands, const float* scales, float* out, std::int64_t samples,
           std::int64_t lines, std::int64_t width) {
  each_pixel(samples, lines, width, [&](std::int64_t n, std::int64_t y, std::int64_t x) {
    Values<4> v = load<4>(head + ((n * lines + y) * width + x) * 4);
    v = each<4>([&](int k) { return v.v[k] * head_scale[n]; });
    const float* band = bands.at(n, y, x);
    for (std::int64_t p = 0; p < bands.count; ++p, band += bands.plane) {
      const float s = scales[n * bands.count + p];
      const float2 upper = pair_at(band, true), lower = pair_at(band + bands.line, true);
      v.v[0] += upper.x * s;
      v.v[1] += upper.y * s;
      v.v[2] += lower.x * s;
      v.v[3] += lower.y * s;
    }
    float* to = out + (n * 2 * lines + 2 * y) * 2 * width + 2 * x;
    put_pair(to, v.v[0], v.v[1]);
    put_pair(to + 2 * width, v.v[2], v.v[3]);
  });
}

/// Gradient to the head, and of each of gridDim.x parts of a sample the products of the gradient with the head and with
/// each band: parts [samples, gridDim.x, 1 + bands].
template <typename T>
__global__ void __launch_bounds__(kThreads)
    spread_backward(const T* head, const float* head_scale, Planes bands, const float* grad, T* dhead, float* parts,
                    std::int64_t samples, std::int64_t lines, std::int64_t width) {
  const std::int64_t pixels = lines * width;
  for (std::int64_t n = blockIdx.y; n < samples; n += gridDim.y) {
    float* to = parts + (n * gridDim.x + blockIdx.x) * (1 + bands.count);
    const auto product = [&](auto&& of_pixel) {  // the whole block's sum, in thread 0
      float sum = 0.f;
      for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < pixels;
           i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
        const std::int64_t y = i / width, x = i - y * width;
        const float* g = grad + (n * 2 * lines + 2 * y) * 2 * width + 2 * x;
        sum += of_pixel(i, y, x, pair_at(g, true), pair_at(g + 2 * width, true));
      }
      return sum_over_block(sum);
    };
    const float with_head = product([&](std::int64_t i, std::int64_t, std::int64_t, float2 upper, float2 lower) {
      const std::int64_t at = (n * pixels + i) * 4;
      const Values<4> v = load<4>(head + at);
      const float s = head_scale[n];
      store<4>(dhead + at, Values<4>{{upper.x * s, upper.y * s, lower.x * s, lower.y * s}});
      return (upper.x * v.v[0] + upper.y * v.v[1]) + (lower.x * v.v[2] + lower.y * v.v[3]);
    });
    if (threadIdx.x == 0) to[0] = with_head;
    for (std::int64_t p = 0; p < bands.count; ++p) {
      const float with_band = product([&](std::int64_t, std::int64_t y, std::int64_t x, float2 upper, float2 lower) {
        const float* band = bands.at(n, y, x) + p * bands.plane;
        const float2 a = pair_at(band, true), b = pair_at(band + bands.line, true);
        return (upper.x * a.x + upper.y * a.y) + (lower.x * b.x + lower.y * b.y);
      });
      if (threadIdx.x == 0) to[1 + p] = with_band;
    }
  }
}

/// Adds up the parts: the first sum of each sample to dhead_scale [samples], the others to dscales [samples, bands].
__global__ void __launch_bounds__(kThreads) add_parts(const float* parts, float* dhead_scale, float* dscales,
                                                      std::int64_t samples, std::int64_t count, std::int64_t bands) {
  const std::int64_t sums = samples * (1 + bands);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < sums;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const std::int64_t n = i / (1 + bands), which = i - n * (1 + bands);
    float sum = 0.f;
    for (std::int64_t p = 0; p < count; ++p) sum += parts[(n * count + p) * (1 + bands) + which];
    if (which == 0)
      dhead_scale[n] = sum;
    else
      dscales[n * bands + which - 1] = sum;
  }
}

}  // namespace

void run_space_to_depth(Element type, Planes bands, const float* scales, Planes maps, void* out, std::int64_t samples,
                        std::int64_t lines, std::int64_t width, bool paired, CudaStream stream) {
  if (samples * lines * width == 0) return;
  by_element(type, [&]<typename T>(T*) {
    launch(gather<T>, grid_for(samples, lines, width), dim3(kPixels, kLines), stream, bands, scales, maps,
           static_cast<T*>(out), samples, lines, width, paired);
  });
}

void run_depth_to_space(Element type, const void* head, const float* head_scale, Planes bands, const float* scales,
                        float* out, std::int64_t samples, std::int64_t lines, std::int64_t width, CudaStream stream) {
  if (samples * lines * width == 0) return;
  by_element(type, [&]<typename T>(T*) {
    launch(spread<T>, grid_for(samples, lines, width), dim3(kPixels, kLines), stream, static_cast<const T*>(head),
           head_scale, bands, scales, out, samples, lines, width);
  });
}

void run_depth_to_space_backward(Element type, const void* head, const float* head_scale, Planes bands,
                                 const float* grad, void* dhead, float* dhead_scale, float* dscales, float* parts,
                                 std::int64_t count, std::int64_t samples, std::int64_t lines, std::int64_t width,
                                 CudaStream stream) {
  if (samples == 0) return;
  by_element(type, [&]<typename T>(T*) {
    launch(spread_backward<T>, dim3(static_cast<unsigned>(count), blocks_across(samples)), kThreads, stream,
           static_cast<const T*>(head), head_scale, bands, grad, static_cast<T*>(dhead), parts, samples, lines, width);
  });
  launch(add_parts, blocks(divided_up(samples * (1 + bands.count), kThreads)), kThreads, stream, parts, dhead_scale,
         dscales, samples, count, bands.count);
}

}  // namespace cirrus::kernels::cuda
