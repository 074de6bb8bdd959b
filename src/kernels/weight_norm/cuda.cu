// Weight normalisation as CUDA kernels: one launch for all layers of a network, a warp for each output channel's
// weights. Where a layer's weights are is part of the kernel's parameters, so that a launch can be recorded in a graph.
#include "device/cuda/launch.cuh"
#include "kernels/weight_norm/cuda_layers.h"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

/// Calls f(layer, row of it) for each row; all lanes of a warp have the same one.
template <typename F>
__device__ void each_row(const Layers& layers, F&& f) {
  const int rows = layers.first_row[layers.count], warps = kThreads / 32;
  for (int row = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / 32; row < rows;
       row += static_cast<int>(gridDim.x) * warps) {
    int low = 0, high = layers.count;  // the layer with first_row[layer] <= row < first_row[layer + 1]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (layers.first_row[middle] <= row)
        low = middle;
      else
        high = middle;
    }
    f(low, row - layers.first_row[low]);
  }
}

/// Calls f(j, width tag) for the lane's places of a row of n weights, four at a time where `wide`.
template <typename F>
__device__ void each_weight(int n, bool wide, F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (wide)
    for (int j = lane * 4; j < n; j += 128) f(j, std::integral_constant<int, 4>{});
  else
    for (int j = lane; j < n; j += 32) f(j, std::integral_constant<int, 1>{});
}

__device__ float sum_of_squares(const float* w, int n, bool wide) {
  float sum = 0.f;
  each_weight(n, wide, [&](int j, auto v) {
    const auto a = load<v()>(w + j);
#pragma unroll
    for (int k = 0; k < v(); ++k) sum += a.v[k] * a.v[k];
  });
  return sum_over_lanes(sum, 32);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) normalize(const __grid_constant__ Layers layers) {
  each_row(layers, [&](int layer, int row) {
    const int n = layers.row_length[layer];
    const bool wide = layers.wide[layer];
    const std::int64_t at = static_cast<std::int64_t>(row) * n;
    const float* w = static_cast<const float*>(layers.weights[layer]) + at;
    T* y = static_cast<T*>(layers.out[layer]) + at;
    const float scale = 1.f / sqrtf(sum_of_squares(w, n, wide) + 1e-12f);
    if (threadIdx.x % 32 == 0) layers.inv[layer][row] = scale;
    each_weight(n, wide, [&](int j, auto v) {
      const auto a = load<v()>(w + j);
      store<v()>(y + j, each<v()>([&](int k) { return a.v[k] * scale; }));
    });
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) normalize_backward(const __grid_constant__ Layers layers) {
  each_row(layers, [&](int layer, int row) {
    const int n = layers.row_length[layer];
    const bool wide = layers.wide[layer];
    const std::int64_t at = static_cast<std::int64_t>(row) * n;
    const float *w = static_cast<const float*>(layers.weights[layer]) + at, scale = layers.inv[layer][row];
    const T* g = static_cast<const T*>(layers.grads[layer]) + at;
    float* dw = static_cast<float*>(layers.out[layer]) + at;
    float dot = 0.f;
    each_weight(n, wide, [&](int j, auto v) {
      const auto a = load<v()>(w + j), b = load<v()>(g + j);
#pragma unroll
      for (int k = 0; k < v(); ++k) dot += a.v[k] * b.v[k];
    });
    const float share = sum_over_lanes(dot, 32) * scale * scale;
    each_weight(n, wide, [&](int j, auto v) {
      const auto a = load<v()>(w + j), b = load<v()>(g + j);
      store<v()>(dw + j, each<v()>([&](int k) { return scale * (b.v[k] - a.v[k] * share); }));
    });
  });
}

__global__ void __launch_bounds__(kThreads) force_unit(const __grid_constant__ Layers layers) {
  each_row(layers, [&](int layer, int row) {
    const int n = layers.row_length[layer];
    const bool wide = layers.wide[layer];
    float* w = static_cast<float*>(layers.out[layer]) + static_cast<std::int64_t>(row) * n;
    const float scale = 1.f / sqrtf(sum_of_squares(w, n, wide) / static_cast<float>(n) + 1e-12f);
    each_weight(n, wide, [&](int j, auto v) {
      const auto a = load<v()>(w + j);
      store<v()>(w + j, each<v()>([&](int k) { return a.v[k] * scale; }));
    });
  });
}

unsigned grid_for(const Layers& layers) { return blocks(divided_up(layers.first_row[layers.count], kThreads / 32)); }

}  // namespace

void run_normalize_weights(Element type, const Layers& layers, CudaStream stream) {
  by_element(type, [&]<typename T>(T*) { launch(normalize<T>, grid_for(layers), kThreads, stream, layers); });
}
void run_normalize_weights_backward(Element type, const Layers& layers, CudaStream stream) {
  by_element(type, [&]<typename T>(T*) { launch(normalize_backward<T>, grid_for(layers), kThreads, stream, layers); });
}
void run_force_unit_weights(const Layers& layers, CudaStream stream) {
  launch(force_unit, grid_for(layers), kThreads, stream, layers);
}

}  // namespace cirrus::kernels::cuda
