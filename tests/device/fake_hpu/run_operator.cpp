// Running operators on the fake HPU: natively, or by the host with copies.
#include <ATen/ATen.h>
#include <ATen/native/CPUFallback.h>

#include <cstring>

#include "tests/device/fake_hpu/kernels.h"

namespace fake_hpu {
namespace {

thread_local bool fallback_runs = false;

using c10::IValue;

std::uint64_t hash_text(const std::string& text) { return std::hash<std::string>()(text); }

std::uint64_t hash_tensor(std::uint64_t h, const at::Tensor& t) {
  if (!t.defined()) return mix(h, 1);
  h = mix(h, static_cast<std::uint64_t>(t.scalar_type()));
  for (const std::int64_t n : t.sizes()) h = mix(h, static_cast<std::uint64_t>(n));
  for (const std::int64_t n : t.strides()) h = mix(h, static_cast<std::uint64_t>(n));
  h = mix(h, static_cast<std::uint64_t>(t.storage_offset()));
  // A number the host holds becomes a constant of the graph.
  if (t.is_cpu() && t.dim() == 0)
    h = mix(h, hash_text(t.item().isFloatingPoint() ? std::to_string(t.item().toDouble())
                         : t.item().isComplex()     ? "complex"
                                                    : std::to_string(t.item().toLong())));
  return h;
}

std::uint64_t hash_value(std::uint64_t h, const IValue& v) {
  if (v.isTensor()) return hash_tensor(h, v.toTensor());
  if (v.isList()) {
    h = mix(h, v.toListRef().size());
    for (const IValue& item : v.toListRef()) h = hash_value(h, item);
    return h;
  }
  if (v.isInt()) return mix(h, static_cast<std::uint64_t>(v.toInt()));
  if (v.isBool()) return mix(h, v.toBool() ? 2 : 3);
  if (v.isDouble()) {
    const double d = v.toDouble();
    std::uint64_t bits;
    std::memcpy(&bits, &d, sizeof bits);
    return mix(h, bits);
  }
  if (v.isString()) return mix(h, hash_text(v.toStringRef()));
  return mix(h, v.isNone() ? 4 : 5);
}

/// float64 is kept and computed in float32, int64 in int32, as the bridge does; both are counted.
void narrow(at::Tensor& host) {
  if (!host.defined() || host.numel() == 0) return;
  if (host.scalar_type() == at::kDouble) host.copy_(host.to(at::kFloat));
  if (host.scalar_type() == at::kLong) host.copy_(host.to(at::kInt));
}

bool is_out(const c10::Argument& a) { return a.kwarg_only() && a.alias_info() != nullptr && a.alias_info()->isWrite(); }

}  // namespace

bool inside_fallback() { return fallback_runs; }

at::Tensor host_alias(const at::Tensor& t) {
  if (!t.defined() || t.device().type() != at::kHPU) return t;
  return at::from_blob(t.data_ptr(), t.sizes(), t.strides(), at::TensorOptions(t.scalar_type()));
}

at::Tensor to_card(const at::Tensor& host) {
  if (!host.defined() || !host.is_cpu()) return host;
  at::Tensor out =
      at::empty_strided(host.sizes(), host.strides(), host.options().device(at::Device(at::kHPU, 0)).pinned_memory({}));
  at::Tensor alias = host_alias(out);
  alias.copy_(host);
  narrow(alias);
  return out;
}

std::uint64_t signature(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) {
  std::uint64_t h = hash_text(c10::toString(op.operator_name()));
  for (const IValue& a : arguments) h = hash_value(h, a);
  return h;
}

void run_native(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const std::string name = c10::toString(op.operator_name());
  const std::size_t count = schema.arguments().size(), first = stack->size() - count;
  std::vector<IValue> originals(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());

  bool onto_card = true, half = false, wide = false, eight_bit = false;
  const auto look = [&](const at::Tensor& t) {
    if (!t.defined() || t.device().type() != at::kHPU) return;
    half |= t.scalar_type() == at::kHalf;
    wide |= t.scalar_type() == at::kDouble;
    eight_bit |= c10::isFloat8Type(t.scalar_type());
  };
  for (std::size_t i = 0; i < count; ++i) {
    IValue& v = (*stack)[first + i];
    if (v.isTensor()) {
      look(v.toTensor());
      if (is_out(schema.arguments()[i]))
        v = at::empty({0}, at::TensorOptions(v.toTensor().scalar_type()));  // the kernel gives it its size
      else
        v = host_alias(v.toTensor());
    } else if (v.isTensorList()) {
      std::vector<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) {
        look(t);
        list.push_back(host_alias(t));
      }
      v = list;
    } else if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector()) {
        if (t) look(*t);
        list.push_back(t ? std::optional(host_alias(*t)) : std::nullopt);
      }
      v = list;
    } else if (v.isDevice()) {
      onto_card = v.toDevice().type() == at::kHPU;
      v = at::Device(at::kCPU);
    }
  }
  TORCH_CHECK(!(eight_bit && generation() == 1), name, ": float8 tensors are not supported on Gaudi");
  if (half && generation() == 1) {  // the first generation has no float16
    stack->resize(first);
    stack->insert(stack->end(), originals.begin(), originals.end());
    return run_fallback(op, stack);
  }
  if (wide) Recorder::get().add("double_operations");
  Recorder::get().operation(name, signature(op, originals));
  // Operators whose result, or its shape, the host has to see.
  static const std::set<std::string> kRead = {"aten::equal",       "aten::nonzero",
                                              "aten::nonzero.out", "aten::masked_select",
                                              "aten::_unique2",    "aten::masked_select.out",
                                              "aten::_unique",     "aten::unique_dim",
                                              "aten::bincount",    "aten::repeat_interleave.Tensor"};
  if (kRead.contains(name) && !fallback_runs) Recorder::get().end_graph(GraphEnd::host_read);

  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);

  for (std::size_t i = 0; i < count; ++i) {  // what was written
    const auto& argument = schema.arguments()[i];
    if (argument.alias_info() == nullptr || !argument.alias_info()->isWrite()) continue;
    if (originals[i].isTensor()) {
      at::Tensor target = originals[i].toTensor(), alias = host_alias(target);
      narrow(alias);
    }
  }
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    IValue& v = (*stack)[stack->size() - schema.returns().size() + i];
    const auto* alias = schema.returns()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) {
      for (std::size_t k = 0; k < count; ++k) {
        const auto* written = schema.arguments()[k].alias_info();
        if (written == nullptr || !(*written == *alias) || !originals[k].isTensor()) continue;
        at::Tensor target = originals[k].toTensor();
        if (is_out(schema.arguments()[k])) {
          const at::Tensor value = v.toTensor();
          if (target.sizes() != value.sizes()) target.resize_(value.sizes());
          host_alias(target).copy_(value);
        }
        v = target;
        break;
      }
    } else if (v.isTensor()) {
      if (onto_card) v = to_card(v.toTensor());
    } else if (v.isTensorList()) {
      std::vector<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(onto_card ? to_card(t) : t);
      v = list;
    }
  }
}

void run_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string name = c10::toString(op.operator_name());
  const char* placed = std::getenv("PT_HPU_PLACE_ON_CPU");
  TORCH_CHECK(placed == nullptr || std::string(placed) != "none", name,
              " is not supported on the device, and PT_HPU_PLACE_ON_CPU=none forbids the CPU");
  Recorder::get().fallback(name);
  const bool before = fallback_runs;
  fallback_runs = true;
  try {
    at::native::cpu_fallback(op, stack);
  } catch (...) {
    fallback_runs = before;
    throw;
  }
  fallback_runs = before;
}

}  // namespace fake_hpu
