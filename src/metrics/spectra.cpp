// Ring sums by one pass over two complex spectra.
#include "metrics/spectra.h"

#include <numbers>

#include "base/errors.h"
#include "metrics/map.h"
#include "metrics/quantile.h"

namespace cirrus::metrics {
namespace {

/// Symmetric Hann window: its end points are zero.
at::Tensor hann(int64_t n) {
  if (n == 1) return at::ones({1}, at::kDouble);
  return 0.5 - 0.5 * (2 * std::numbers::pi / static_cast<double>(n - 1) * at::arange(n, at::kDouble)).cos();
}

at::Tensor windowed_spectrum(const at::Tensor& map, const at::Tensor& window) {
  const at::Tensor mean = (map * window).sum() / window.sum();
  return at::fft_fft2((map - mean) * window).contiguous();
}

double frequency(int64_t i, int64_t n) {
  return static_cast<double>(i <= (n - 1) / 2 ? i : i - n) * (1.0 / static_cast<double>(n));
}

double ring_edge(int edge) { return static_cast<double>(edge + 1) * kRingWidth; }

/// The ring that holds wave number k, lower edge included; -1 outside all rings.
int ring_of(double k) {
  int ring = static_cast<int>(k / kRingWidth) - 1;
  if (ring + 1 <= kRings && k >= ring_edge(ring + 1)) ++ring;
  if (ring >= 0 && k < ring_edge(ring)) --ring;
  return ring < kRings ? ring : -1;
}

double nyquist(int64_t factor) { return 0.5 / static_cast<double>(factor); }

}  // namespace

double ring_centre(int ring) { return (ring_edge(ring + 1) + ring_edge(ring)) / 2; }

RingSums ring_sums(const at::Tensor& output, const at::Tensor& truth) {
  const at::Tensor x = as_map(output, "the output"), y = as_map(truth, "the truth");
  if (x.sizes() != y.sizes())
    throw Error(ExitCode::bad_data, "output and truth differ in size", "compare maps of one grid");
  const int64_t rows = x.size(0), columns = x.size(1);
  const at::Tensor window = hann(rows).unsqueeze(1) * hann(columns).unsqueeze(0);
  const at::Tensor fx = windowed_spectrum(x, window), fy = windowed_spectrum(y, window);
  const auto* px = fx.const_data_ptr<c10::complex<double>>();
  const auto* py = fy.const_data_ptr<c10::complex<double>>();
  RingSums sums;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j, ++px, ++py) {
      const int ring = ring_of(std::hypot(frequency(i, rows), frequency(j, columns)));
      if (ring < 0) continue;
      sums.output[ring] += std::norm(*px);
      sums.truth[ring] += std::norm(*py);
      sums.cross[ring] += px->real() * py->real() + px->imag() * py->imag();
    }
  }
  return sums;
}

std::vector<double> power_ratio(const RingSums& sums) {
  std::vector<double> ratio(kRings);
  for (int i = 0; i < kRings; ++i) ratio[i] = sums.output[i] / sums.truth[i];
  return ratio;
}

std::vector<double> correlation(const RingSums& sums) {
  std::vector<double> coefficient(kRings);
  for (int i = 0; i < kRings; ++i) coefficient[i] = sums.cross[i] / std::sqrt(sums.output[i] * sums.truth[i]);
  return coefficient;
}

std::optional<double> added_power(const std::vector<double>& ratio, int64_t factor) {
  std::vector<double> kept;
  for (int i = 0; i < kRings; ++i) {
    const double k = ring_centre(i);
    if (k >= nyquist(factor) && k <= 0.4 && !std::isnan(ratio[i])) kept.push_back(ratio[i]);
  }
  if (kept.empty()) return std::nullopt;
  return median_of(std::move(kept));
}

std::optional<double> mean_correlation(const std::vector<double>& coefficient, int64_t factor, double low,
                                       double high) {
  double sum = 0;
  int count = 0;
  for (int i = 0; i < kRings; ++i) {
    const double k = ring_centre(i);
    if (k <= low * nyquist(factor) - 1e-9 || k >= high * nyquist(factor) - 1e-9 || std::isnan(coefficient[i])) continue;
    sum += coefficient[i];
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

double half_correlation(const std::vector<double>& coefficient) {
  for (int i = 0; i < kRings; ++i)
    if (coefficient[i] < 0.5) return ring_centre(i);
  return 0.5;
}

}  // namespace cirrus::metrics
