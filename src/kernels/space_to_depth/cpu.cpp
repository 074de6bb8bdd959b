// The network's two ends on the CPU: one pass over rows of two lines of pixels each way.
#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

constexpr std::int64_t kPlaneGrain = 32768;  // pixels of planes a thread takes at least

/// One line of a plane: `width` pixels, each to be multiplied by `scale`.
struct Line {
  const float* pixels;
  float scale;
};

#define CIRRUS_LOOPS(T)                                                                                         \
  /* lines: two for each plane, the upper first; out: width / 2 rows of 2 * count channels. */                  \
  CIRRUS_DISPATCH void gather(const Line* lines, std::int64_t count, T* out, std::int64_t width) {              \
    constexpr std::int64_t kPiece = 64; /* pixels of all lines that stay in the nearest cache */                \
    const std::int64_t channels = 2 * count;                                                                    \
    for (std::int64_t begin = 0; begin < width; begin += kPiece) {                                              \
      const std::int64_t end = std::min(width, begin + kPiece);                                                 \
      for (std::int64_t i = 0; i < count; ++i) {                                                                \
        const float *p = lines[i].pixels, scale = lines[i].scale;                                               \
        T* o = out + begin / 2 * channels + 2 * i;                                                              \
        for (std::int64_t x = begin; x < end; x += 2, o += channels) {                                          \
          store(o, p[x] * scale);                                                                               \
          store(o + 1, p[x + 1] * scale);                                                                       \
        }                                                                                                       \
      }                                                                                                         \
    }                                                                                                           \
  }                                                                                                             \
  /* Adds k times one line (dy) of the head's pixels to out. */                                                 \
  CIRRUS_DISPATCH void spread(const T* head, float* out, std::int64_t width, float k) {                         \
    for (std::int64_t x = 0; x < width; x += 2, head += 4) {                                                    \
      out[x] = load(head) * k;                                                                                  \
      out[x + 1] = load(head + 1) * k;                                                                          \
    }                                                                                                           \
  }                                                                                                             \
  /* Gradient of one line: to the head's pixels, and (returned) to the scale. */                                \
  CIRRUS_DISPATCH float spread_backward(const T* head, const float* g, T* dhead, std::int64_t width, float k) { \
    float sum = 0.f;                                                                                            \
    for (std::int64_t x = 0; x < width; x += 2, head += 4, dhead += 4) {                                        \
      store(dhead, g[x] * k);                                                                                   \
      store(dhead + 1, g[x + 1] * k);                                                                           \
      sum += g[x] * load(head) + g[x + 1] * load(head + 1);                                                     \
    }                                                                                                           \
    return sum;                                                                                                 \
  }

CIRRUS_LOOPS(float)
CIRRUS_LOOPS(Bf16)
#undef CIRRUS_LOOPS

CIRRUS_DISPATCH void add_line(const float* in, float* out, std::int64_t n, float k) {
  for (std::int64_t i = 0; i < n; ++i) out[i] += in[i] * k;
}
CIRRUS_DISPATCH float product_sum(const float* a, const float* b, std::int64_t n) {
  float sum = 0.f;
  _Pragma("omp simd reduction(+ : sum)") for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// Planes whose lines are contiguous; what lies between planes and samples does not matter.
at::Tensor with_lines(const at::Tensor& x) {
  return (x.stride(3) == 1 || x.size(3) == 1) && x.stride(2) >= 0 ? x : x.contiguous();
}

}  // namespace

namespace cpu {

at::Tensor space_to_depth_input(const at::Tensor& bands_in, const at::Tensor& scales, const at::Tensor& maps_in,
                                at::ScalarType dtype) {
  const at::Tensor bands = with_lines(bands_in), maps = with_lines(maps_in);
  const std::int64_t n = bands.size(0), b = bands.size(1), m = maps.size(1), h = bands.size(2), w = bands.size(3),
                     lines = 2 * (b + m + 1);
  const at::Tensor out =
      at::empty({n, 2 * lines, h / 2, w / 2}, bands.options().dtype(dtype), at::MemoryFormat::ChannelsLast);
  const std::vector<float> ones(static_cast<std::size_t>(w), 1.f);
  by_dtype(out, [&]<typename T>(T*) {
    parallel(n * h / 2, kPlaneGrain / (w * lines), [&](std::int64_t begin, std::int64_t end) {
      std::vector<Line> all(static_cast<std::size_t>(lines), {ones.data(), 1.f});
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t sample = r / (h / 2), y = 2 * (r % (h / 2));
        const auto line = [&](const at::Tensor& x, std::int64_t plane, std::int64_t dy) {
          return data<float>(x) + sample * x.stride(0) + plane * x.stride(1) + (y + dy) * x.stride(2);
        };
        for (std::int64_t p = 0; p < b + m; ++p)
          for (std::int64_t dy = 0; dy < 2; ++dy)
            all[static_cast<std::size_t>(2 * p + dy)] =
                p < b ? Line{line(bands, p, dy), data<float>(scales)[sample * b + p]}
                      : Line{line(maps, p - b, dy), 1.f};
        gather(all.data(), lines, data<T>(out) + r * (w / 2) * 2 * lines, w);
      }
    });
  });
  return out;
}

at::Tensor depth_to_space_output(const at::Tensor& head, const at::Tensor& head_scale, const at::Tensor& bands,
                                 const at::Tensor& band_scales) {
  const std::int64_t n = bands.size(0), b = bands.size(1), h = bands.size(2), w = bands.size(3);
  const at::Tensor out = at::empty({n, 1, h, w}, bands.options());
  by_dtype(head, [&]<typename T>(T*) {
    parallel(n * h, kPlaneGrain / (w * (b + 1)), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t sample = r / h, y = r % h;
        float* line = data<float>(out) + r * w;
        spread(data<T>(head) + (sample * h / 2 + y / 2) * w * 2 + (y % 2) * 2, line, w,
               data<float>(head_scale)[sample]);
        for (std::int64_t k = 0; k < b; ++k)
          add_line(data<float>(bands) + ((sample * b + k) * h + y) * w, line, w,
                   data<float>(band_scales)[sample * b + k]);
      }
    });
  });
  return out;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> depth_to_space_output_backward(const at::Tensor& head,
                                                                              const at::Tensor& head_scale,
                                                                              const at::Tensor& bands,
                                                                              const at::Tensor& band_scales,
                                                                              const at::Tensor& grad) {
  const at::Tensor dhead = like_channels_last(head), dhs = at::empty_like(head_scale),
                   dbs = at::empty_like(band_scales);
  const std::int64_t b = bands.size(1), h = bands.size(2), w = bands.size(3);
  by_dtype(head, [&]<typename T>(T*) {  // one sample is one thread's: sums need no reduction and are deterministic
    parallel(bands.size(0), 1, [&](std::int64_t sample, std::int64_t end) {
      for (; sample < end; ++sample) {
        double head_sum = 0;
        const float* gradient = data<float>(grad) + sample * h * w;
        for (std::int64_t y = 0; y < h; ++y) {
          const std::int64_t at = (sample * h / 2 + y / 2) * w * 2 + (y % 2) * 2;
          head_sum += static_cast<double>(spread_backward(data<T>(head) + at, gradient + y * w, data<T>(dhead) + at, w,
                                                          data<float>(head_scale)[sample]));
        }
        data<float>(dhs)[sample] = static_cast<float>(head_sum);
        for (std::int64_t k = 0; k < b; ++k) {
          double sum = 0;
          for (std::int64_t y = 0; y < h; ++y)
            sum += static_cast<double>(
                product_sum(gradient + y * w, data<float>(bands) + ((sample * b + k) * h + y) * w, w));
          data<float>(dbs)[sample * b + k] = static_cast<float>(sum);
        }
      }
    });
  });
  return {dhead, dhs, dbs};
}

}  // namespace cpu
}  // namespace cirrus::kernels
