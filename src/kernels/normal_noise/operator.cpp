// Addressed noise: checks, its entry in torch's dispatcher, and the way to devices without a kernel.
#include <torch/library.h>

#include "kernels/dispatch.h"
#include "kernels/normal_noise.h"

namespace cirrus::kernels {
namespace cpu {
void fill_normal(at::Tensor& out, std::int64_t seed, std::int64_t purpose, at::IntArrayRef items, std::int64_t step,
                 std::int64_t y0, std::int64_t x0);
}

namespace {

// Unsigned numbers travel as their bit patterns.
TORCH_LIBRARY_FRAGMENT(cirrus, m) {
  m.def("fill_normal(Tensor(a!) out, int seed, int purpose, int[] items, int step, int y0, int x0) -> ()");
}
TORCH_LIBRARY_IMPL(cirrus, CPU, m) { m.impl("fill_normal", cpu::fill_normal); }

}  // namespace

void fill_normal(at::Tensor& out, const NoiseWindow& window) {
  static const FusedOperator<decltype(cpu::fill_normal)> kernel("cirrus::fill_normal");
  TORCH_CHECK(out.size(0) == static_cast<std::int64_t>(window.items.size()), "one item for each sample of the batch");
  if (out.scalar_type() != at::kFloat || !out.is_contiguous() || !kernel.on_device_of(out)) {
    at::Tensor host = at::empty(out.sizes(), at::kFloat);
    fill_normal(host, window);
    out.copy_(host);
    return;
  }
  const std::vector<std::int64_t> items(window.items.begin(), window.items.end());
  kernel(out, static_cast<std::int64_t>(window.seed), static_cast<std::int64_t>(window.purpose), items, window.step,
         window.y0, window.x0);
}

at::Tensor normal_noise(at::IntArrayRef shape, const NoiseWindow& window, const at::Device& device) {
  at::Tensor out = at::empty(shape, at::TensorOptions().dtype(at::kFloat).device(device));
  fill_normal(out, window);
  return out;
}

at::Tensor normals(at::IntArrayRef shape, std::uint64_t seed, Purpose purpose, std::uint64_t item) {
  return normal_noise({1, 1, 1, c10::multiply_integers(shape)}, {seed, purpose, {item}}).view(shape);
}

}  // namespace cirrus::kernels
