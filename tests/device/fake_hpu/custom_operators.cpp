// The vendor's own operators that Cirrus uses or may use, by the lazy build's schemas; computed on shared bytes.
// Schemas: HabanaAI/gaudi-pytorch-bridge 1.19.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "tests/device/fake_hpu/kernels.h"

namespace fake_hpu {
namespace {

std::vector<at::Tensor> aliases(at::TensorList list) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& t : list) out.push_back(host_alias(t));
  return out;
}

std::uint64_t shapes(std::uint64_t h, at::TensorList list) {
  for (const at::Tensor& t : list)
    for (const std::int64_t n : t.sizes()) h = mix(h, static_cast<std::uint64_t>(n));
  return h;
}

/// w <- weight_decay w + neg_step m / (sqrt(v) + epsilon): the step carries the bias corrections.
void optimizer_adamw(at::TensorList gradients, at::TensorList weights, at::TensorList first, at::TensorList second,
                     const at::Tensor& neg_step, double beta1, double beta2, double epsilon, double weight_decay,
                     const std::optional<at::ArrayRef<at::Tensor>>&, const std::optional<at::ArrayRef<at::Tensor>>&) {
  TORCH_CHECK(neg_step.device().type() == at::kHPU, "optimizer_adamw: neg_step_t must be on HPU");
  std::uint64_t h = shapes(23, weights);
  for (const double d : {beta1, beta2, epsilon, weight_decay}) h = mix(h, std::hash<double>()(d));
  Recorder::get().operation("hpu::optimizer_adamw", h);
  const auto g = aliases(gradients);
  auto w = aliases(weights), m = aliases(first), v = aliases(second);
  const at::Tensor step = host_alias(neg_step);
  for (std::size_t i = 0; i < w.size(); ++i) {
    m[i].mul_(beta1).add_(g[i], 1 - beta1);
    v[i].mul_(beta2).addcmul_(g[i], g[i], 1 - beta2);
    w[i].mul_(weight_decay).add_(m[i] / v[i].sqrt().add_(epsilon) * step);
  }
}

/// softmax(scale q k^T + mask) v; m and linv are the softmax's row maxima and inverse row sums, for backward alone.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> sdpa_recomp_fwd(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask, double p,
    double scale, bool causal, bool backward, c10::string_view, const std::optional<at::Tensor>&, c10::string_view) {
  TORCH_CHECK(p == 0, "the fake HPU has no dropout in attention");
  Recorder::get().operation("hpu::sdpa_recomp_fwd", shapes(29, {q, k, v}));
  at::Tensor scores = at::matmul(host_alias(q).to(at::kFloat), host_alias(k).to(at::kFloat).transpose(-2, -1)) * scale;
  if (mask && mask->defined()) scores = scores + host_alias(*mask);
  if (causal) scores.masked_fill_(at::ones_like(scores).tril().logical_not_(), -INFINITY);
  const at::Tensor m = scores.amax(-1, true), linv = (scores - m).exp().sum(-1, true).reciprocal();
  const at::Tensor out = at::matmul((scores - m).exp() * linv, host_alias(v).to(at::kFloat)).to(q.scalar_type());
  if (!backward) return {to_card(out), {}, {}, {}};
  return {to_card(out), to_card(m), to_card(linv), to_card(at::zeros({1}, at::kInt))};
}

/// The same with an argument more, as another release may have it.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> sdpa_of_another_release(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask, double p,
    double scale, bool causal, bool backward, c10::string_view mode, const std::optional<at::Tensor>& length,
    c10::string_view padding, std::int64_t) {
  return sdpa_recomp_fwd(q, k, v, mask, p, scale, causal, backward, mode, length, padding);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> sdpa_recomp_bwd(const at::Tensor& gradient, const at::Tensor& q,
                                                               const at::Tensor& k, const at::Tensor& v,
                                                               const std::optional<at::Tensor>& mask,
                                                               const at::Tensor& m, const at::Tensor& linv,
                                                               const std::optional<at::Tensor>&, bool causal, double,
                                                               double scale, c10::string_view, const at::Tensor& out) {
  Recorder::get().operation("hpu::sdpa_recomp_bwd", shapes(31, {q, k, v}));
  const at::Tensor qh = host_alias(q).to(at::kFloat), kh = host_alias(k).to(at::kFloat),
                   vh = host_alias(v).to(at::kFloat), gh = host_alias(gradient).to(at::kFloat);
  at::Tensor scores = at::matmul(qh, kh.transpose(-2, -1)) * scale;
  if (mask && mask->defined()) scores = scores + host_alias(*mask);
  if (causal) scores.masked_fill_(at::ones_like(scores).tril().logical_not_(), -INFINITY);
  const at::Tensor share = (scores - host_alias(m)).exp() * host_alias(linv);
  const at::Tensor row = (gh * host_alias(out).to(at::kFloat)).sum(-1, true);
  const at::Tensor ds = share * (at::matmul(gh, vh.transpose(-2, -1)) - row) * scale;
  const auto back = [&](const at::Tensor& t) { return to_card(t.to(q.scalar_type())); };
  return {back(at::matmul(ds, kh)), back(at::matmul(ds.transpose(-2, -1), qh)),
          back(at::matmul(share.transpose(-2, -1), gh))};
}

TORCH_LIBRARY(hpu, m) {
  m.def(
      "optimizer_adamw(Tensor[] gradient_vec, Tensor(a!)[] weight_vec, Tensor(b!)[] exp_avg_vec, "
      "Tensor(c!)[] exp_avg_sq_vec, Tensor neg_step_t, float beta1, float beta2, float epsilon, float weight_decay, "
      "Tensor(d!)[]? exp_avg_scales=None, Tensor(e!)[]? exp_avg_sq_scales=None) -> ()");
  if (has_fault("no_attention")) return;
  const std::string window = has_fault("other_attention") ? ", int window" : "";
  const std::string forward =
      "sdpa_recomp_fwd(Tensor q, Tensor k, Tensor v, Tensor? attention_mask, float p, float scale, bool is_causal, "
      "bool requires_backward, str softmax_mode, Tensor? valid_seq_len, str seq_padding_type" +
      window + ") -> (Tensor, Tensor, Tensor, Tensor)";
  m.def(forward.c_str());
  m.def(
      "sdpa_recomp_bwd(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? attention_mask, Tensor m, Tensor linv, "
      "Tensor? seed, bool is_causal, float p, float scale, str softmax_mode, Tensor fwd_out) -> "
      "(Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(hpu, HPU, m) {
  m.impl("optimizer_adamw", optimizer_adamw);
  if (has_fault("other_attention"))
    m.impl("sdpa_recomp_fwd", sdpa_of_another_release);
  else
    m.impl("sdpa_recomp_fwd", sdpa_recomp_fwd);
  m.impl("sdpa_recomp_bwd", sdpa_recomp_bwd);
}

}  // namespace
}  // namespace fake_hpu
