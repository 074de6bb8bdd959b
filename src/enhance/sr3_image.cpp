// Scaling and enlarging an observation for SR3.
#include "enhance/sr3_image.h"

#include "metrics/baselines.h"

namespace cirrus::enhance {
namespace {

constexpr double kHeadroom = 1.25;  // detail goes beyond the range of the low-resolution map

}  // namespace

Prepared prepare_image(const Observation& o) {
  Prepared p;
  p.transform = transform_of(o.lr);
  const at::Tensor t = p.transform.forward(o.lr);
  const double low = t.min().item<double>(), high = t.max().item<double>();
  const double center = 0.5 * (high + low), half = std::max(0.5 * kHeadroom * (high - low), 1e-6);
  const at::Tensor image = metrics::bicubic((t - center) / half, o.sampling.factor).to(at::kFloat).clamp(-1, 1);
  p.base = at::full_like(image, center);
  p.scale = at::full_like(image, half);
  p.maps = image.unsqueeze(0);
  p.scalars = at::empty({0}, at::kFloat);
  return p;
}

}  // namespace cirrus::enhance
