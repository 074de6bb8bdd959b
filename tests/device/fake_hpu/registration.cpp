// The fake HPU's kernels: memory, views and copies by hand; every operator of native_operators.txt (the file lies
// beside the library) as device work; the host for the rest.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <filesystem>
#include <fstream>

#include "tests/device/fake_hpu/kernels.h"

namespace fake_hpu {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::HPU);

void check_type(at::ScalarType type) {
  TORCH_CHECK(!(c10::isFloat8Type(type) && generation() == 1), type, " tensors are not supported on Gaudi");
  TORCH_CHECK(!c10::isComplexType(type), type, " tensors are not supported on HPU");
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const at::ScalarType type = dtype.value_or(at::kFloat);
  check_type(type);
  return at::detail::empty_generic(size, c10::GetAllocator(at::kHPU), kKeys, type, format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  const at::ScalarType type = dtype.value_or(at::kFloat);
  check_type(type);
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(at::kHPU), kKeys, type);
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  at::native::resize_impl_cpu_(self.unsafeGetTensorImpl(), size, std::nullopt, true);
  if (format && *format != at::MemoryFormat::Preserve) self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

std::uint64_t copy_signature(const at::Tensor& from, const at::Tensor& to) {
  std::uint64_t h = 17;
  for (const at::Tensor* t : {&from, &to}) {
    h = mix(h, static_cast<std::uint64_t>(t->scalar_type()));
    for (const std::int64_t n : t->sizes()) h = mix(h, static_cast<std::uint64_t>(n));
    for (const std::int64_t n : t->strides()) h = mix(h, static_cast<std::uint64_t>(n));
    h = mix(h, static_cast<std::uint64_t>(t->storage_offset()));
  }
  return h;
}

/// float64 is stored as float32 and int64 as int32; an int64 that does not fit is counted.
at::Tensor narrowed(const at::Tensor& host) {
  Recorder& r = Recorder::get();
  if (host.scalar_type() == at::kDouble) {
    r.add("double_tensors");
    return host.to(at::kFloat);
  }
  if (host.scalar_type() == at::kLong) {
    const at::Tensor small = host.to(at::kInt);
    if (!at::equal(small.to(at::kLong), host)) r.add("int64_overflows");
    return small;
  }
  return host;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  Recorder& r = Recorder::get();
  const bool read = from.device().type() == at::kHPU && to.device().type() != at::kHPU;
  const auto bytes = static_cast<std::int64_t>(from.nbytes());
  if (read) {
    if (!inside_fallback()) r.end_graph(GraphEnd::host_read);
    r.add(inside_fallback() ? "fallback_bytes" : "d2h_bytes", bytes);
    at::Tensor target = to;
    target.copy_(host_alias(from));
  } else if (from.device().type() == at::kHPU) {
    r.operation("aten::copy_", copy_signature(from, to));
    at::Tensor target = host_alias(to);
    target.copy_(host_alias(from));
  } else {
    r.add(inside_fallback() ? "fallback_bytes" : "h2d_bytes", bytes);
    r.add("h2d_copies");
    at::Tensor target = host_alias(to);
    target.copy_(narrowed(from));
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  Recorder& r = Recorder::get();
  if (!inside_fallback()) r.end_graph(GraphEnd::host_read);
  r.add("d2h_bytes", static_cast<std::int64_t>(self.nbytes()));
  return host_alias(self).item();
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<std::int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) { return at::native::view(self, size); }
at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}
at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

/// The names of native_operators.txt.
std::set<std::string> native_names() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&native_names), &info);
  const auto file = std::filesystem::path(info.dli_fname).parent_path() / "native_operators.txt";
  std::ifstream in(file);
  TORCH_CHECK(in.good(), "the fake HPU needs ", file.string());
  std::set<std::string> names;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') names.insert(line.substr(0, line.find(' ')));
  return names;
}

/// Views share memory: LibTorch composes them of as_strided and view; the rest of these is above, or never computes.
bool by_hand(const c10::OperatorHandle& op) {
  static const std::set<std::string> kNames = {
      "aten::copy_",      "aten::_copy_from",     "aten::_copy_from_and_resize", "aten::_local_scalar_dense",
      "aten::empty",      "aten::resize_",        "aten::_resize_output_",       "aten::empty_strided",
      "aten::set_",       "aten::is_pinned",      "aten::_pin_memory",           "aten::_efficientzerotensor",
      "aten::squeeze_",   "aten::unsqueeze_",     "aten::as_strided_",           "aten::_unsafe_view",
      "aten::pin_memory", "aten::lift_fresh_copy"};
  if (kNames.contains(op.operator_name().name)) return true;
  for (const auto& r : op.schema().returns())
    if (r.alias_info() != nullptr && !r.alias_info()->isWrite()) return true;
  return false;
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("resize_", resize);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("set_.source_Storage_storage_offset", set_storage);

  // Operators composed of others are decomposed by LibTorch, and their parts are what the device runs.
  for (const std::string& name : native_names()) {
    if (name.rfind("aten::", 0) != 0) continue;
    const std::size_t dot = name.find('.');
    const auto op = c10::Dispatcher::singleton().findSchema(
        {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
    if (!op || by_hand(*op) || op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) continue;
    m.impl(name.substr(6).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_native>());
  }
}

TORCH_LIBRARY_IMPL(_, HPU, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_fallback>()); }

TORCH_LIBRARY_IMPL(_, AutocastHPU, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastHPU, m) {
  using namespace at::autocast;
  KERNEL(c10::DeviceType::HPU, convolution, lower_precision_fp)
  KERNEL(c10::DeviceType::HPU, linear, lower_precision_fp)
  KERNEL(c10::DeviceType::HPU, matmul, lower_precision_fp)
  KERNEL(c10::DeviceType::HPU, mm, lower_precision_fp)
  KERNEL(c10::DeviceType::HPU, bmm, lower_precision_fp)
  KERNEL(c10::DeviceType::HPU, addmm, lower_precision_fp)
}

}  // namespace
}  // namespace fake_hpu
