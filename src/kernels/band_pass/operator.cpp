// The band-pass cascade: checks, its entry in torch's dispatcher, and what noise becomes in it.
#include <torch/library.h>

#include "kernels/band_pass.h"
#include "kernels/dispatch.h"

namespace cirrus::kernels {
namespace cpu {
at::Tensor band_pass(const at::Tensor& x);
}

namespace {

TORCH_LIBRARY_FRAGMENT(cirrus, m) { m.def("band_pass(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(cirrus, CPU, m) { m.impl("band_pass", cpu::band_pass); }

}  // namespace

std::array<double, kBands> band_noise_gains() {
  // The noise in a band is the response to a unit impulse, summed in quadrature.
  const int n = 4 * band_reach() + 1;
  at::Tensor impulse = at::zeros({1, 1, n, n}, at::kFloat);
  impulse[0][0][n / 2][n / 2] = 1;
  const at::Tensor rms = reference::band_pass(impulse).to(at::kDouble).square().sum({0, 2, 3}).sqrt();
  std::array<double, kBands> out{};
  for (int b = 0; b < kBands; ++b) out[static_cast<std::size_t>(b)] = rms[b].item<double>();
  return out;
}

at::Tensor band_pass(const at::Tensor& x) {
  static const FusedOperator<decltype(cpu::band_pass)> kernel("cirrus::band_pass");
  TORCH_CHECK(x.dim() == 4 && x.size(1) == 1, "band_pass wants [N, 1, H, W], got ", x.sizes());
  return x.scalar_type() == at::kFloat && kernel.on_device_of(x) ? kernel(x.contiguous()) : reference::band_pass(x);
}

}  // namespace cirrus::kernels
