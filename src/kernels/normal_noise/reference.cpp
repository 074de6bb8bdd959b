// Addressed noise, one pixel at a time in double: the definition.
#include "kernels/normal_noise.h"

namespace cirrus::kernels::reference {

void fill_normal(at::Tensor& out, const NoiseWindow& window) {
  const std::int64_t n = out.size(0), h = out.size(-2), w = out.size(-1);
  at::Tensor values = at::empty({n, h, w}, at::kFloat);
  auto a = values.accessor<float, 3>();
  for (std::int64_t i = 0; i < n; ++i) {
    const Address address(window.seed, window.purpose, window.items[static_cast<std::size_t>(i)], window.step);
    for (std::int64_t y = 0; y < h; ++y)
      for (std::int64_t x = 0; x < w; ++x) {
        const auto gy = static_cast<std::uint64_t>(window.y0 + y), gx = static_cast<std::uint64_t>(window.x0 + x);
        const auto words = address.block((gy << 32) | (gx >> 2));
        const unsigned lane = gx & 3u, first = lane & 2u;
        a[i][y][x] = static_cast<float>(normal_pair(words[first], words[first + 1])[lane & 1u]);
      }
  }
  out.copy_(values.view(out.sizes()));
}

}  // namespace cirrus::kernels::reference
