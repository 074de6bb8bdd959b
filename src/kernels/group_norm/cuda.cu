// Group normalisation as CUDA kernels over channels-last rows: sums by channel in parts of a sample's rows, their
// combination by group (a warp each, in float64), and the pass that applies them.
#include "device/cuda/launch.cuh"

namespace cirrus::kernels::cuda {
namespace {

using namespace cirrus::device;

__device__ float sigmoid(float v) { return 1.f / (1.f + expf(-v)); }
__device__ float silu_slope(float v) {
  const float s = sigmoid(v);
  return s * (1.f + v * (1.f - s));
}

/// Two sums by channel over the rows of a part: calls f(sample, first channel), which gives what adds a row's values
/// (offset of the row and channel) to both. sums: [samples, gridDim.x, 2, channels].
template <int V, typename F>
__device__ void sums_by_channel(float* sums, std::int64_t samples, std::int64_t rows, std::int64_t channels, F&& f) {
  for (std::int64_t n = blockIdx.y; n < samples; n += gridDim.y)
    for (std::int64_t first = 0; first < channels; first += blockDim.x * V) {  // the same for all threads: they sum up
      const std::int64_t j = first + threadIdx.x * V;
      const bool inside = j < channels;
      Values<V> a{}, b{};
      if (inside) {
        auto add = f(n, j);
        for (std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; r < rows;
             r += static_cast<std::int64_t>(gridDim.x) * blockDim.y)
          add((n * rows + r) * channels + j, a, b);
      }
      a = sum_over_rows<V>(a);
      b = sum_over_rows<V>(b);
      if (inside && threadIdx.y == 0) {
        float* to = sums + (n * gridDim.x + blockIdx.x) * 2 * channels + j;
        store<V>(to, a);
        store<V>(to + channels, b);
      }
    }
}

/// Calls f(sample, first channel) for the thread's channels, which gives what is done with each of their rows.
template <int V, typename F>
__device__ void each_row(std::int64_t samples, std::int64_t rows, std::int64_t channels, F&& f) {
  for (std::int64_t n = blockIdx.y; n < samples; n += gridDim.y)
    for (std::int64_t j = threadIdx.x * V; j < channels; j += blockDim.x * V) {
      auto work = f(n, j);
      for (std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; r < rows;
           r += static_cast<std::int64_t>(gridDim.x) * blockDim.y)
        work((n * rows + r) * channels + j);
    }
}

/// Sums of x - x[n, 0] and of its square: each channel is shifted by its first value, so that a mean far from zero
/// costs no digits of the variance.
template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    moments(const T* x, float* sums, std::int64_t samples, std::int64_t rows, std::int64_t channels) {
  sums_by_channel<V>(sums, samples, rows, channels, [&](std::int64_t n, std::int64_t j) {
    const Values<V> shift = load<V>(x + n * rows * channels + j);
    return [=](std::int64_t at, Values<V>& sum, Values<V>& square) {
      const Values<V> v = load<V>(x + at);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float d = v.v[k] - shift.v[k];
        sum.v[k] += d;
        square.v[k] += d * d;
      }
    };
  });
}

/// Adds up one channel of one of a sample's two sums over its parts.
__device__ double total(const float* sums, std::int64_t parts, std::int64_t channels, std::int64_t n, int which,
                        std::int64_t c) {
  double t = 0;
  for (std::int64_t p = 0; p < parts; ++p) t += static_cast<double>(sums[((n * parts + p) * 2 + which) * channels + c]);
  return t;
}

/// Mean and 1 / sigma of each group; a warp has one.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    statistics(const T* x, const float* sums, float* mean, float* inv, std::int64_t samples, std::int64_t rows,
               std::int64_t channels, std::int64_t groups, std::int64_t parts, double epsilon) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t width = channels / groups, warps = static_cast<std::int64_t>(gridDim.x) * (kThreads / 32);
  const double count = static_cast<double>(rows);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
       i < samples * groups; i += warps) {
    const std::int64_t n = i / groups, begin = (i - n * groups) * width;
    const auto channel_mean = [&](std::int64_t c) {
      return static_cast<double>(to_float(x[n * rows * channels + c])) + total(sums, parts, channels, n, 0, c) / count;
    };
    double centre = 0;
    for (std::int64_t c = begin + lane; c < begin + width; c += 32) centre += channel_mean(c);
    centre = sum_over_lanes(centre, 32) / static_cast<double>(width);
    double squares = 0;
    for (std::int64_t c = begin + lane; c < begin + width; c += 32) {
      const double sum = total(sums, parts, channels, n, 0, c), off = channel_mean(c) - centre;
      squares += total(sums, parts, channels, n, 1, c) - sum * sum / count + count * off * off;
    }
    squares = sum_over_lanes(squares, 32);
    if (lane == 0) {
      mean[i] = static_cast<float>(centre);
      inv[i] =
          static_cast<float>(1 / sqrt((squares > 0 ? squares : 0) / (count * static_cast<double>(width)) + epsilon));
    }
  }
}

template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    apply(const T* x, const float* weight, const float* bias, const float* mean, const float* inv, T* y,
          std::int64_t samples, std::int64_t rows, std::int64_t channels, std::int64_t groups, bool silu) {
  const std::int64_t width = channels / groups;
  each_row<V>(samples, rows, channels, [&](std::int64_t n, std::int64_t j) {
    const Values<V> w = load<V>(weight + j), b = load<V>(bias + j),
                    m = each<V>([&](int k) { return mean[n * groups + (j + k) / width]; }),
                    s = each<V>([&](int k) { return inv[n * groups + (j + k) / width] * w.v[k]; });
    return [=](std::int64_t at) {
      const Values<V> v = load<V>(x + at);
      store<V>(y + at, each<V>([&](int k) {
                 const float u = (v.v[k] - m.v[k]) * s.v[k] + b.v[k];
                 return silu ? u * sigmoid(u) : u;
               }));
    };
  });
}

/// Sums of the gradient before SiLU, and of its product with the normalised x.
template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    gradient_sums(const T* x, const float* weight, const float* bias, const float* mean, const float* inv, const T* g,
                  float* sums, std::int64_t samples, std::int64_t rows, std::int64_t channels, std::int64_t groups,
                  bool silu) {
  const std::int64_t width = channels / groups;
  sums_by_channel<V>(sums, samples, rows, channels, [&](std::int64_t n, std::int64_t j) {
    const Values<V> w = load<V>(weight + j), b = load<V>(bias + j),
                    m = each<V>([&](int k) { return mean[n * groups + (j + k) / width]; }),
                    s = each<V>([&](int k) { return inv[n * groups + (j + k) / width]; });
    return [=](std::int64_t at, Values<V>& sum, Values<V>& product) {
      const Values<V> v = load<V>(x + at), d = load<V>(g + at);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float normalised = (v.v[k] - m.v[k]) * s.v[k];
        const float e = silu ? d.v[k] * silu_slope(normalised * w.v[k] + b.v[k]) : d.v[k];
        sum.v[k] += e;
        product.v[k] += e * normalised;
      }
    };
  });
}

/// A warp has a group, whose means of the gradient and of its product with the normalised x go to means [samples *
/// groups, 2], or a channel, whose sums over all samples are the gradients of bias and weight.
__global__ void __launch_bounds__(kThreads)
    gradient_means(const float* sums, const float* weight, float* means, float* dweight, float* dbias,
                   std::int64_t samples, std::int64_t rows, std::int64_t channels, std::int64_t groups,
                   std::int64_t parts) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t width = channels / groups, warps = static_cast<std::int64_t>(gridDim.x) * (kThreads / 32);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
       i < samples * groups + channels; i += warps) {
    double sum = 0, product = 0;
    if (i < samples * groups) {
      const std::int64_t n = i / groups, begin = (i - n * groups) * width;
      for (std::int64_t c = begin + lane; c < begin + width; c += 32) {
        sum += static_cast<double>(weight[c]) * total(sums, parts, channels, n, 0, c);
        product += static_cast<double>(weight[c]) * total(sums, parts, channels, n, 1, c);
      }
    } else {
      const std::int64_t c = i - samples * groups;
      for (std::int64_t part = lane; part < samples * parts; part += 32) {
        sum += static_cast<double>(sums[part * 2 * channels + c]);
        product += static_cast<double>(sums[(part * 2 + 1) * channels + c]);
      }
    }
    sum = sum_over_lanes(sum, 32);
    product = sum_over_lanes(product, 32);
    if (lane != 0) continue;
    if (i < samples * groups) {
      const double values = static_cast<double>(rows * width);
      means[2 * i] = static_cast<float>(sum / values);
      means[2 * i + 1] = static_cast<float>(product / values);
    } else {
      dbias[i - samples * groups] = static_cast<float>(sum);
      dweight[i - samples * groups] = static_cast<float>(product);
    }
  }
}

template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    propagate(const T* x, const float* weight, const float* bias, const float* mean, const float* inv,
              const float* means, const T* g, T* dx, std::int64_t samples, std::int64_t rows, std::int64_t channels,
              std::int64_t groups, bool silu) {
  const std::int64_t width = channels / groups;
  each_row<V>(samples, rows, channels, [&](std::int64_t n, std::int64_t j) {
    const auto group = [=](int k) { return n * groups + (j + k) / width; };
    const Values<V> w = load<V>(weight + j), b = load<V>(bias + j), m = each<V>([&](int k) { return mean[group(k)]; }),
                    s = each<V>([&](int k) { return inv[group(k)]; }),
                    of_sum = each<V>([&](int k) { return means[2 * group(k)]; }),
                    of_product = each<V>([&](int k) { return means[2 * group(k) + 1]; });
    return [=](std::int64_t at) {
      const Values<V> v = load<V>(x + at), d = load<V>(g + at);
      store<V>(dx + at, each<V>([&](int k) {
                 const float normalised = (v.v[k] - m.v[k]) * s.v[k];
                 const float e = silu ? d.v[k] * silu_slope(normalised * w.v[k] + b.v[k]) : d.v[k];
                 return s.v[k] * (e * w.v[k] - of_sum.v[k] - normalised * of_product.v[k]);
               }));
    };
  });
}

dim3 grid_for_rows(std::int64_t rows, std::int64_t samples, const dim3& block) {
  const std::int64_t in_flight =
      std::max<std::int64_t>(4096 / samples, 1);  // blocks a sample, which keep its statistics
  return dim3(blocks(std::min(divided_up(rows, block.y), in_flight)), blocks_across(samples));
}

}  // namespace

void run_group_norm(Element type, bool wide, const void* x, const float* weight, const float* bias, void* y,
                    float* mean, float* inv, float* sums, std::int64_t parts, std::int64_t samples, std::int64_t rows,
                    std::int64_t channels, std::int64_t groups, double epsilon, bool silu, CudaStream stream) {
  if (samples * rows * channels == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto v) {
    const dim3 block = block_for_rows(channels / v(), rows);
    launch(moments<v(), T>, dim3(static_cast<unsigned>(parts), blocks_across(samples)), block, stream,
           static_cast<const T*>(x), sums, samples, rows, channels);
    launch(statistics<T>, blocks(divided_up(samples * groups, kThreads / 32)), kThreads, stream,
           static_cast<const T*>(x), sums, mean, inv, samples, rows, channels, groups, parts, epsilon);
    launch(apply<v(), T>, grid_for_rows(rows, samples, block), block, stream, static_cast<const T*>(x), weight, bias,
           mean, inv, static_cast<T*>(y), samples, rows, channels, groups, silu);
  });
}

void run_group_norm_backward(Element type, bool wide, const void* x, const float* weight, const float* bias,
                             const float* mean, const float* inv, const void* g, void* dx, float* dweight, float* dbias,
                             float* sums, float* means, std::int64_t parts, std::int64_t samples, std::int64_t rows,
                             std::int64_t channels, std::int64_t groups, bool silu, CudaStream stream) {
  if (samples * rows * channels == 0) return;
  by_element_and_width(type, wide, [&]<typename T>(T*, auto v) {
    const dim3 block = block_for_rows(channels / v(), rows);
    launch(gradient_sums<v(), T>, dim3(static_cast<unsigned>(parts), blocks_across(samples)), block, stream,
           static_cast<const T*>(x), weight, bias, mean, inv, static_cast<const T*>(g), sums, samples, rows, channels,
           groups, silu);
    launch(gradient_means, blocks(divided_up(samples * groups + channels, kThreads / 32)), kThreads, stream, sums,
           weight, means, dweight, dbias, samples, rows, channels, groups, parts);
    launch(propagate<v(), T>, grid_for_rows(rows, samples, block), block, stream, static_cast<const T*>(x), weight,
           bias, mean, inv, means, static_cast<const T*>(g), static_cast<T*>(dx), samples, rows, channels, groups,
           silu);
  });
}

}  // namespace cirrus::kernels::cuda
