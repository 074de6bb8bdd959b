// The band-pass cascade on the CPU: separable blurs over contiguous rows.
#include "kernels/band_pass.h"

#include <cstring>

#include "kernels/rows.h"

namespace cirrus::kernels {
namespace {

/// out[x] = sum_i w[i] in[x + i step], added up in the order of i, in pieces that stay in registers.
CIRRUS_DISPATCH void blur(const float* in, std::int64_t step, float* out, std::int64_t width, const float* w,
                          std::int64_t taps) {
  using Vector [[gnu::vector_size(32)]] = float;
  constexpr std::int64_t kVectors = 8, kPiece = kVectors * sizeof(Vector) / sizeof(float);
  std::int64_t x = 0;
  for (; x + kPiece <= width; x += kPiece) {
    Vector sum[kVectors]{};
    for (std::int64_t i = 0; i < taps; ++i) {
      const float *p = in + i * step + x, weight = w[i];
#pragma GCC unroll 8
      for (std::int64_t k = 0; k < kVectors; ++k) {
        Vector value;
        std::memcpy(&value, p + k * kPiece / kVectors, sizeof value);
        sum[k] += weight * value;
      }
    }
    std::memcpy(out + x, sum, sizeof sum);
  }
  std::fill(out + x, out + width, 0.f);
  for (std::int64_t i = 0; i < taps; ++i)
    for (std::int64_t k = x; k < width; ++k) out[k] += w[i] * in[i * step + k];
}

CIRRUS_DISPATCH void subtract(const float* a, const float* b, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] - b[i];
}

/// Blurs rows [y0, y1) of one plane into out (same shape), columns first.
void blur_rows(const float* in, float* out, std::int64_t y0, std::int64_t y1, std::int64_t height, std::int64_t width,
               const std::vector<float>& w) {
  const int taps = static_cast<int>(w.size()), radius = taps / 2;
  std::vector<float> padded(static_cast<std::size_t>(width + taps), 0.f);
  for (std::int64_t y = y0; y < y1; ++y) {
    const std::int64_t first = std::max<std::int64_t>(0, radius - y),
                       last = std::min<std::int64_t>(taps, height + radius - y);  // taps whose rows are inside
    blur(in + (y + first - radius) * width, width, padded.data() + radius, width, w.data() + first, last - first);
    blur(padded.data(), 1, out + y * width, width, w.data(), taps);
  }
}

}  // namespace

namespace cpu {

at::Tensor band_pass(const at::Tensor& x) {
  const std::int64_t n = x.size(0), h = x.size(2), w = x.size(3), plane = h * w;
  const at::Tensor out = at::empty({n, kBands, h, w}, x.options()), blurred = at::empty({n, 3, h, w}, x.options());
  std::array<std::vector<float>, 3> weights;
  for (std::size_t b = 0; b < 3; ++b) weights[b] = gaussian_weights(kBandSigmas[b]);
  const float* in = x.data_ptr<float>();
  float *blur = blurred.data_ptr<float>(), *bands = out.data_ptr<float>();
  parallel(n * 3 * h, 16, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t job = begin / h, y0 = begin % h, y1 = std::min(h, y0 + end - begin);
      blur_rows(in + (job / 3) * plane, blur + job * plane, y0, y1, h, w, weights[static_cast<std::size_t>(job % 3)]);
      begin += y1 - y0;
    }
  });
  parallel(n * h, 64, [&](std::int64_t row, std::int64_t end) {
    for (; row < end; ++row) {
      const std::int64_t i = row / h, at = row % h * w;
      const float *g = blur + 3 * i * plane + at, *source = in + i * plane + at;
      float* b = bands + kBands * i * plane + at;
      subtract(source, g, b, w);
      subtract(g, g + plane, b + plane, w);
      subtract(g + plane, g + 2 * plane, b + 2 * plane, w);
      std::copy(g + 2 * plane, g + 2 * plane + w, b + 3 * plane);
    }
  });
  return out;
}

}  // namespace cpu
}  // namespace cirrus::kernels
