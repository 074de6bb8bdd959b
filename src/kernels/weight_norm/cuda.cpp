// Weight normalisation on CUDA tensors: all layers in as few launches as their addresses fit into, and entries in
// torch's dispatcher.
#include <torch/library.h>

#include <limits>

#include "device/cuda/tensors.h"
#include "kernels/weight_norm/cuda_layers.h"

namespace cirrus::kernels::cuda {

using namespace cirrus::device;

// In cuda.cu.
void run_normalize_weights(Element type, const Layers& layers, CudaStream stream);
void run_normalize_weights_backward(Element type, const Layers& layers, CudaStream stream);
void run_force_unit_weights(const Layers& layers, CudaStream stream);

namespace {

at::Tensor dense(const at::Tensor& w) { return w.dim() == 4 ? channels_last(w) : w.contiguous(); }

/// Collects layers and runs them whenever no more fit.
template <typename Run>
class Batch {
public:
  explicit Batch(Run run) : run_(std::move(run)) {}
  void add(const at::Tensor& w, const void* grads, void* out, float* inv, bool is_aligned) {
    const std::int64_t rows = w.size(0), all = layers_.first_row[layers_.count] + rows,
                       length = w.numel() / std::max<std::int64_t>(rows, 1);
    if (w.numel() == 0) return;
    constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 2;
    TORCH_CHECK(all < kMost && length < kMost, "weights ", w.sizes(), " are too many for one launch");
    const int i = layers_.count++;
    layers_.first_row[i + 1] = static_cast<int>(all);
    layers_.row_length[i] = static_cast<int>(length);
    layers_.wide[i] = is_aligned && length % 4 == 0;
    layers_.weights[i] = w.data_ptr();
    layers_.grads[i] = grads;
    layers_.out[i] = out;
    layers_.inv[i] = inv;
    if (layers_.count == Layers::kMost) finish();
  }
  void finish() {
    if (layers_.count > 0) run_(layers_);
    layers_ = {};
  }

private:
  Run run_;
  Layers layers_{};
};

}  // namespace

std::tuple<std::vector<at::Tensor>, std::vector<at::Tensor>> normalize_weights(at::TensorList weights,
                                                                               at::ScalarType dtype) {
  std::vector<at::Tensor> effective, inverse;
  if (weights.empty()) return {effective, inverse};
  const Launching on(weights[0]);
  const Element type = element_of(at::empty({0}, weights[0].options().dtype(dtype)));
  std::vector<at::Tensor> kept;  // until the launch
  Batch batch([&](const Layers& layers) { run_normalize_weights(type, layers, on); });
  for (const at::Tensor& weight : weights) {
    TORCH_CHECK(weight.scalar_type() == at::kFloat, "normalize_weights wants float32, got ", weight.scalar_type());
    const at::Tensor w = kept.emplace_back(dense(weight)),
                     y = at::empty_like(w, w.options().dtype(dtype), at::MemoryFormat::Preserve),
                     inv = at::empty({w.size(0)}, w.options());
    batch.add(w, nullptr, y.data_ptr(), inv.data_ptr<float>(), aligned({w, y}));
    effective.push_back(y);
    inverse.push_back(inv);
  }
  batch.finish();
  on.check();
  return {effective, inverse};
}

std::vector<at::Tensor> normalize_weights_backward(at::TensorList weights, at::TensorList inverse,
                                                   at::TensorList grads) {
  std::vector<at::Tensor> out;
  if (weights.empty()) return out;
  const Launching on(weights[0]);
  const Element type = element_of(grads[0]);
  std::vector<at::Tensor> kept;
  Batch batch([&](const Layers& layers) { run_normalize_weights_backward(type, layers, on); });
  for (std::size_t k = 0; k < weights.size(); ++k) {
    TORCH_CHECK(grads[k].scalar_type() == grads[0].scalar_type() && grads[k].sizes() == weights[k].sizes(),
                "normalize_weights: gradient ", grads[k].toString(), grads[k].sizes(), " of ", weights[k].sizes());
    const at::Tensor w = kept.emplace_back(dense(weights[k])), g = kept.emplace_back(dense(grads[k])),
                     inv = kept.emplace_back(inverse[k].contiguous()),
                     dw = at::empty_like(w, w.options(), at::MemoryFormat::Preserve);
    batch.add(w, g.data_ptr(), dw.data_ptr(), inv.data_ptr<float>(), aligned({w, g, dw}));
    out.push_back(dw);
  }
  batch.finish();
  on.check();
  return out;
}

void force_unit_weights(at::TensorList weights) {
  if (weights.empty()) return;
  const Launching on(weights[0]);
  Batch batch([&](const Layers& layers) { run_force_unit_weights(layers, on); });
  for (const at::Tensor& w : weights) {
    TORCH_CHECK(w.scalar_type() == at::kFloat && w.is_non_overlapping_and_dense() &&
                    (w.numel() == 0 || w.stride(0) == w.numel() / w.size(0)),
                "force_unit_weights wants float32 with each output channel's weights together, got ", w.toString(),
                w.sizes(), " with strides ", w.strides());
    batch.add(w, nullptr, w.data_ptr(), nullptr, aligned({w}));
  }
  batch.finish();
  on.check();
}

TORCH_LIBRARY_IMPL(cirrus, CUDA, m) {
  m.impl("normalize_weights", normalize_weights);
  m.impl("normalize_weights_backward", normalize_weights_backward);
  m.impl("force_unit_weights", force_unit_weights);
}

}  // namespace cirrus::kernels::cuda
