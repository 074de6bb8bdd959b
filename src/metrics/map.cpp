// Conversion to the one form in which maps are scored.
#include "metrics/map.h"

#include "base/errors.h"

namespace cirrus::metrics {

at::Tensor as_map(const at::Tensor& map, const std::string& what) {
  if (!map.defined() || map.dim() != 2 || map.numel() == 0) {
    const int64_t axes = map.defined() ? map.dim() : 0;
    throw Error(ExitCode::bad_data, what + " is no image: it has " + std::to_string(axes) + " axes",
                "give a two-dimensional map with at least one pixel");
  }
  return map.to(at::kCPU, at::kDouble).contiguous();
}

std::string size_text(const at::Tensor& map) {
  return std::to_string(map.size(1)) + " x " + std::to_string(map.size(0));
}

double rms(const at::Tensor& map) { return std::sqrt(map.square().mean().item<double>()); }

}  // namespace cirrus::metrics
