// The band-pass cascade as ATen convolutions.
#include "kernels/band_pass.h"

namespace cirrus::kernels::reference {

at::Tensor band_pass(const at::Tensor& x) {
  std::vector<at::Tensor> blurred{x};
  for (double sigma : kBandSigmas) {
    const std::vector<float> w = gaussian_weights(sigma);
    const std::int64_t n = static_cast<std::int64_t>(w.size());
    const at::Tensor k = at::tensor(w).to(x.options());
    blurred.push_back(at::conv2d(at::conv2d(x, k.view({1, 1, n, 1}), {}, 1, at::IntArrayRef{n / 2, 0}),
                                 k.view({1, 1, 1, n}), {}, 1, at::IntArrayRef{0, n / 2}));
  }
  blurred.push_back(at::zeros_like(x));
  std::vector<at::Tensor> bands;
  for (std::size_t b = 0; b + 1 < blurred.size(); ++b) bands.push_back(blurred[b] - blurred[b + 1]);
  return at::cat(bands, 1);
}

}  // namespace cirrus::kernels::reference
