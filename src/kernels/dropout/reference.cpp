// Dropout with a mask made one value at a time on the host: the definition.
#include "kernels/dropout.h"

#include "base/random.h"

namespace cirrus::kernels::reference {

at::Tensor dropout(const at::Tensor& x, double p, std::uint64_t seed, const at::Tensor& samples, std::uint32_t layer) {
  const std::int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  const at::Tensor items = samples.to(at::kCPU), mask = at::empty({n, h, w, c}, at::kDouble);
  auto a = mask.accessor<double, 4>();
  for (std::int64_t i = 0; i < n; ++i) {
    const Address address(seed, Purpose::dropout, static_cast<std::uint64_t>(items[i].item<std::int64_t>()), layer);
    for (std::int64_t y = 0; y < h; ++y)
      for (std::int64_t j = 0; j < w; ++j)
        for (std::int64_t k = 0; k < c; ++k) {
          const auto e = static_cast<std::uint64_t>((y * w + j) * c + k);
          a[i][y][j][k] = uniform_from_bits(address.block(e / 4)[e % 4]) >= p ? 1 / (1 - p) : 0;
        }
  }
  // The factor is rounded once, in at least float32, whatever x is.
  const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return (x.to(wide) * mask.permute({0, 3, 1, 2}).to(wide).to(x.device()))
      .to(x.scalar_type())
      .contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace cirrus::kernels::reference
