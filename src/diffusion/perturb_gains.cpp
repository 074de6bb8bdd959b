// Gains away from where they start.
#include "diffusion/perturb_gains.h"

#include <c10/core/GradMode.h>

#include "kernels/normal_noise.h"

namespace cirrus::diffusion {

void perturb_gains(Denoiser& network, double size) {
  const c10::NoGradGuard no_grad;
  std::uint64_t item = 0;
  for (const NamedTensor& p : network.parameters())
    if (p.tensor.dim() <= 1)
      p.tensor.add_((size * kernels::normals(p.tensor.sizes(), 1, Purpose::weights, ++item)).to(p.tensor.device()));
}

}  // namespace cirrus::diffusion
