// The exponential function one value at a time, as a polynomial that the compiler vectorises (the C library's is a
// call).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace cirrus::kernels {

/// exp(x) for |x| <= 87 (beyond that: the value at the end), relative error 2e-7. Reduction to |r| <= ln(2)/2, then the
/// polynomial of Cephes' expf.
inline float exponential(float x) {
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding it rounds to a whole number
  // Clamped as a whole number: the bits of positive floats have their order, and compilers that must heed NaN make
  // several instructions of a clamp of floats. (NaN becomes 87.)
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const float t =
      std::bit_cast<float>(std::min(bits & 0x7FFFFFFFu, std::bit_cast<std::uint32_t>(87.f)) | (bits & 0x80000000u));
  const float n = (t * 1.44269504f + kRound) - kRound;
  const float r = (t - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return (p * r * r + r + 1.f) * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

/// exp(x) for |x| <= 700, relative error 4e-16: Taylor's polynomial of degree 13 on |r| <= ln(2)/2 is good to 5e-18.
inline double exponential(double x) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: its low bits then hold the whole number
  const double shifted = x * 1.4426950408889634 + kRound, n = shifted - kRound;
  const double r = (x - n * 0.693145751953125) - n * 1.42860682030941723212e-6;
  double p = 1.0 / 6227020800.0;
  for (const double c : {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
                         1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0})
    p = p * r + c;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(p) + (std::bit_cast<std::uint64_t>(shifted) << 52));
}

/// 1 / (1 + exp(-x)).
inline float sigmoid(float x) { return 1.f / (1.f + exponential(-x)); }

}  // namespace cirrus::kernels
