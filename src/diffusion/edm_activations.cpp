// What a training step of the product's network keeps: one entry for each tensor that a gradient is computed from, as
// the operators in kernels/ save them. The network is one unit.
#include <algorithm>

#include "diffusion/edm_network.h"
#include "diffusion/winograd_memory.h"

namespace cirrus::diffusion {

dist::ModelActivations EdmNetwork::activations(std::int64_t samples, std::int64_t height, std::int64_t width,
                                               const at::Device& device) const {
  const double area = static_cast<double>(samples * height * width), e = static_cast<double>(c10::elementSize(dtype_));
  const auto pixels = [&](std::size_t level) { return area / std::pow(4.0, static_cast<double>(level + 1)); };
  const auto shape = [&](std::int64_t weight, std::int64_t d) {
    return weights_[static_cast<std::size_t>(weight)].tensor.size(d);
  };
  double kept = 0, working = 0;
  // Weights in effect, and the decoder's halves of them; the gradients of all.
  for (const NamedTensor& w : weights_) kept += static_cast<double>(w.tensor.numel()) * e;
  // The backward pass begins with all of it there: a block's gradient and those of its two branches.
  const auto backward = [&](const Block& b, double area_here) {
    const double scratch = device.is_cpu() ? winograd_memory(b.width, b.width, area_here) : 0;
    working = std::max(working, scratch + e * area_here * 3 * static_cast<double>(b.width));
  };
  // Bands, noisy map, target, difference: float32. The stem's input.
  kept += 4 * area * (kernels::kBands + 3);
  kept += e * pixels(0) * static_cast<double>(shape(stem_, 1));
  const auto encoder = [&](const Block& b, std::size_t level) {
    const double p = pixels(level);
    if (b.skip >= 0) kept += e * p * static_cast<double>(shape(b.skip, 1));  // its input
    // Normalised, activated, convolved, scaled; and the pixels' norms.
    kept += p * (4 * e * static_cast<double>(b.width) + 4);
    backward(b, p);
  };
  const std::size_t levels = encoder_.size();
  for (std::size_t l = 0; l < levels; ++l)
    for (const Block& b : encoder_[l]) {
      encoder(b, l);
      if (l + 1 < levels) kept += e * pixels(l) * static_cast<double>(b.width);  // for the decoder
    }
  for (const Block& b : middle_) encoder(b, levels - 1);
  kept += e * pixels(levels - 1) * static_cast<double>(config_.widths.back());
  for (std::size_t l = levels - 1; l-- > 0;) {
    bool enlarges = true;
    for (const Block& b : decoder_[l]) {
      const double p = pixels(l);
      // Both parts activated, the sum of their convolutions, scaled, and the result.
      const double coarse = static_cast<double>(b.coarse), all = static_cast<double>(shape(b.first, 1));
      kept += e * p * ((enlarges ? coarse / 4 : coarse) + all - coarse + 3 * static_cast<double>(b.width));
      backward(b, p);
      enlarges = false;
    }
  }
  kept += 4 * e * pixels(0);  // head
  dist::ModelActivations out;
  out.units.push_back({kept, 0, working, 0});
  return out;
}

}  // namespace cirrus::diffusion
